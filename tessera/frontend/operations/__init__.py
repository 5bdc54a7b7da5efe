"""The operations of the language: one handler for each name, one module for each family.

It may import `core`, `frontend.base` and `frontend.language`.
"""
