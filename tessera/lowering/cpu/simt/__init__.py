"""Lane code on the CPU: parallel regions between barriers, masked control flow, vectors of 32 lanes.

It may import `lowering.cpu.base` and `lowering.cpu.tile`, and what these may.
"""
