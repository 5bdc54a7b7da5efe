"""Passes that choose how a tile kernel runs: MMA, warps, multibuffering, rasterization, layouts, epilogue.

It emits nothing.  It may import `lowering.cuda.base` and `lowering.cuda.storage`.
"""
