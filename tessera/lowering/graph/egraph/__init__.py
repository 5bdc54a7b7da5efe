"""E-graphs: many equal graphs at once, what rules read of them, prices, and the choice of one.

It may import `core` only.
"""
