"""A kernel as data: types, values, operations.  What the frontend makes, and every target reads.

It may import `core.base` and `core.errors`.
"""
