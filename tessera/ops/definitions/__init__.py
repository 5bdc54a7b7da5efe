"""Operators as mathematics: each is a function on tracers, made of the primitives of graphs.

No pass knows them by name: what is fused, differentiated and scheduled is what they are made of.
"""
