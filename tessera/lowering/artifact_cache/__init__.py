"""Compiled kernels on disk: their content address, their encoding, the store that processes share.

It may import `core` and `lowering.base`, and never loads MLIR.
"""
