"""Missed-optimization remarks: products without tensor cores, tiles in memory, accesses without TMA.

It may import `lowering.cuda.schedule`, and what that may.
"""
