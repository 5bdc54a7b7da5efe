"""The CUDA target: Tile IR to NVVM, PTX and a cubin, and the report of its resources.

It may import `core`, `lowering.base`, `lowering.analysis`, `lowering.math`, `lowering.tile` and the folders in it.
"""
