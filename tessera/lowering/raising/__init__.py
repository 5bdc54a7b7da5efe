"""From kernels to graphs: a Program for known extents as the mathematics of its outputs.

`positions.py` holds integers as functions of axes, `terms.py` the elements that such integers tell, `solve.py` which
axes reach a place, `evaluate.py` what a value of the Program is at one place, and `raise_program.py` the whole.
"""
