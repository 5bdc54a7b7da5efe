"""Views of IR, errors, profiles and searches in notebooks; nothing below knows of them.

It may import everything but `ops`.
"""
