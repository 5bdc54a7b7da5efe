"""Mathematical functions and conversions, written with upstream vector arithmetic.

It may import `core` and `lowering.base`.
"""
