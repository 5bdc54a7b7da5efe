"""Two stages of a compilation beside each other: which operation is which, and what became of the others.

Diffs, films and the explorer count changes with it, so that a pass has one count.
"""
