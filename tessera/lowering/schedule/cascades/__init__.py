"""The algebra of cascades: reductions that use each other as one loop, derived from expressions of scalars.

It may import `core` only.
"""
