"""Text to Python's syntax tree: tokens, rewriting of Tessera's additions, parsing, hints for what does not parse.

It may import `core`; it knows nothing of Programs.
"""
