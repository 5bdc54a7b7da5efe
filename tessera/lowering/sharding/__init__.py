"""Graphs on meshes: shardings of all values from a few, collectives where they differ, and the graph of one device.

`factors.py` says along which axes a node may be cut, `propagate.py` chooses, `partition.py` makes the local graph.
"""
