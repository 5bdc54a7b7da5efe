"""Advice on a profiled launch: what limits it, in numbers, and which change is worth a try; trials of such changes.

`rules` find, `explanation` ranks, `trial` measures.
"""
