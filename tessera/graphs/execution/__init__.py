"""Runs of a prepared graph: memory for one call, arenas that are kept for the next, launches bound in advance.

It may import what `graphs` may, but nothing of `graphs` outside of this folder.
"""
