"""Tile operations as loops: sources of vectors, places for them, and the nests that connect the two."""
