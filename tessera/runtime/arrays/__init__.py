"""Arrays of any library in host memory, as NumPy views of the same bytes.

It may import `core`.
"""
