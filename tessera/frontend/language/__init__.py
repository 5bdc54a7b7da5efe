"""The names of the language: the namespace, the reference of each operation, hints for names of other languages.

It may import `core`.
"""
