"""Meshes of devices, shard specs, distributions, and reductions over ranks, as data.

It says where each element of an array lies, and in which order parts are folded.  It knows no device: names of devices
are text, and what a mesh is for lies above.  It may import `core.base` and `core.errors`.
"""
