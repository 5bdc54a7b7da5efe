"""Kernels with lanes of their own: one lane is one thread; barrier insertion, thread coarsening, tiles in memory.

It may import `lowering.cuda.base`, and what that may.
"""
