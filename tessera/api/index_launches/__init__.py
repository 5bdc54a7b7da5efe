"""Index launches: a kernel or a function once for each place along mesh axes, ordered by what each may do.

It may import what `api` may.
"""
