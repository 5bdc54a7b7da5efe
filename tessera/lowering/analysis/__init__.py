"""Analyses of Programs and Tile IR that change nothing: integer ranges, divergence, accesses, dependence.

It may import `core` and `lowering.base`.
"""
