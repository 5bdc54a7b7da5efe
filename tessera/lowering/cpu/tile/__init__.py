"""Tile operations as loop nests over vectors: packing, blocking and micro-kernels of matrix products, reductions.

It may import `lowering.cpu.base`, and what that may, and `lowering.math`.
"""
