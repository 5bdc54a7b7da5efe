"""Automatic differentiation of graphs: a graph goes in, a graph comes out.

Every primitive has a linearization (`linearize.py`), every linear primitive a transpose (`transpose.py`); forward mode,
reverse mode and their compositions follow from these two.  It may import `core` alone.
"""
