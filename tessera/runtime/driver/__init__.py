"""The one door to the CUDA driver: calls, descriptors, devices, modules.

It may import `core` and `runtime.arrays`.
"""
