"""Masks of tiles that reach over the edge of an array: which elements are valid, and the operations that say so.

It may import `core`, `lowering.base` and `lowering.analysis`.
"""
