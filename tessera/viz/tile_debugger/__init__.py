"""Accesses and values of the tiles and lanes of a kernel: recordings of the interpreter, and the view of them."""
