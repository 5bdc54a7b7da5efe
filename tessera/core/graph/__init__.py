"""Graph IR: programs as algebra over whole tensors; primitives with labels, views as index maps, explicit roundings.

Data only.  `lowering/graph` rewrites graphs, `lowering/autodiff` differentiates them, `lowering/schedule` makes
Programs of them, `runtime/interpret/graph.py` is the oracle.
"""
