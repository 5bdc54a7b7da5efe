"""The CPU target: Tile IR to vector code for one warp of 32 lanes, and to an ELF object.

It may import `core`, `lowering.base`, `lowering.analysis`, `lowering.math` and the folders in it.
"""
