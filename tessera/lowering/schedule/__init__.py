"""From graphs to kernels: groups, their axes, cascades of reductions, and Programs.

It may import `core` only.
"""
