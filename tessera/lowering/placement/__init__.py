"""Between placements: which collectives bring a value from one to another, what they move, and what that costs.

It may import `core`.
"""
