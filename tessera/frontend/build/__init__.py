"""From one kernel's syntax tree and the types of its arguments to a `Program`: statements, loops, expressions.

It may import `core` and everything else of the frontend.
"""
