"""Passes on graphs: each a function from a graph to a graph that computes the same, to the bit or as permitted.

It may import `core` only.
"""
