"""From arguments to what a kernel receives: checks against its signature, the grid, placement, packing, tensor maps.

It may import `runtime.memory` and below.
"""
