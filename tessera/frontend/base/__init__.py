"""The ground floor of building a Program: the operation builder, bindings, the context of a kernel, subscripts.

It may import `core`, `frontend.language` and `frontend.syntax`.
"""
