"""Rewrite rules of e-graphs, one module a class of what they may change (`core/graph/permissions.py`).

Rules look at primitives and shapes, never at the names of operators.  It may import `core` and the e-graph.
"""
