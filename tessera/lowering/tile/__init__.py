"""Passes on Tile IR, and the translation of a Program to it.  A pass never imports another.

It may import `core`, `lowering.base`, `lowering.analysis` and `lowering.tile.masking`.
"""
