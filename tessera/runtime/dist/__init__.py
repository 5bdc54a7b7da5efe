"""Ranks of a mesh at work: engines that run them, and collectives over what each of them holds.

An engine runs tasks of ranks and moves bits between them; it may import `runtime.launch` and below.  What is folded,
and in which order, is data of `core.placement`; the kernels that fold are handed in from above.
"""
