"""Measure launches: profiles of every tile, timing, copies of arguments that a run may overwrite.

It may import `kernels` and below.
"""
