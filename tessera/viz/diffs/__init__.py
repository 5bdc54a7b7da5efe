"""The visual diff of two stages of compilations, and the film of all passes of one.

What became of each operation is found by `tessera.viz.stage_alignment`.
"""
