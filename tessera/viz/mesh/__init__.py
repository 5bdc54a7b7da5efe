"""Meshes of devices and the arrays that lie on them, block by block."""
