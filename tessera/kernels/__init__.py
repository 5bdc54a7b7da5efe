"""Kernels as objects: calling, specialization for argument types, options, closures.

It may import `session` and below.
"""
