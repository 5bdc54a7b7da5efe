"""The compiler as a whole: the pass pipeline of each target, and one compilation from Program to artifact.

It may import `core` and all of the lowering but the service.
"""
