"""Layouts of the elements of tiles: lanes and registers, MMA fragments, banks of shared memory, and their view."""
