"""Features and caches of the processor, and the context that lowering of tiles runs in.

It may import `core` and `lowering.base`.
"""
