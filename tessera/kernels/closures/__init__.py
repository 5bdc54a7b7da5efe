"""Closures of Python functions: what their code reads besides its arguments, and whether that is as it was.

It may import `runtime` and `core`.
"""
