"""The visual diff of two stages of compilations, and the film of all passes of one.

`align` finds what became of each operation, `texts` does the same for levels that are texts; `model` is what both give.
"""
