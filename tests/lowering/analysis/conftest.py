"""Every test of Tile IR runs in an MLIR context."""

from support.mlir import mlir_context

__all__ = ["mlir_context"]
