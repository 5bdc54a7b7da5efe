"""Tile IR: the `tessera` dialect of MLIR, its verifiers, its printer, and the locations that link it to the source.

It may import all of `core`; only the compiler imports it.
"""
