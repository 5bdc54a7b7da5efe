"""Mistakes: the base class with its renderer, the catalog of all of them, and the place of a call.

It may import `core.base`.
"""
