"""Shards of arrays in this process's memory: moved between the devices of a mesh, and folded.

It may import `core`.
"""
