"""Stores of results: by TMA, by each warp, to unaligned rows, and deferred into the next tile's main loop.

It may import `lowering.cuda.mma`, `lowering.cuda.pipeline` and below.
"""
