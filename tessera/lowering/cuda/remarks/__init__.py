"""Missed-optimization remarks: products without tensor cores, tiles in memory, accesses without the copy engine.

It may import `lowering.cuda.schedule`, and what that may.
"""
