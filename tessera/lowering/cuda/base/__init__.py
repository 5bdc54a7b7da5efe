"""Building blocks of all GPU code: indices, memory, scalars, inline PTX, the function around a kernel.

It may import `core`, `lowering.base` and `lowering.math`.
"""
