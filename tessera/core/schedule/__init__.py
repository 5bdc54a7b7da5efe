"""Schedule options and schedules as data: how a kernel is compiled, not what it computes.

It may import `core.base`, `core.errors`, `core.program` and, for fused reductions, `core.graph`.
"""
