"""The CUDA Tile target: Tile IR to CUDA Tile IR bytecode, and by `tileiras` to a cubin.

It may import `core`, `lowering.base`, `lowering.analysis`, `lowering.math` and `lowering.tile`.
"""
