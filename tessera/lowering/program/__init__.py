"""Passes on Programs, before there is any MLIR: phases, tiles without elements, remarks on serial loops.

It may import `core`.
"""
