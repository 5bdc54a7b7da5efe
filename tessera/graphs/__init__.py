"""Operator graphs as objects: traced from Python functions, planned, compiled group by group, and called.

It may import everything below: `kernels`, `session`, `lowering`, `runtime`, `core`.
"""
