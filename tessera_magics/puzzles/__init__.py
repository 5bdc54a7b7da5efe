"""A course of twenty puzzles, from a first map to attention: exercises, their pictures, and checks that explain."""

from tessera_magics.puzzles.puzzle import puzzle

__all__ = ["puzzle"]
