"""Storage of tiles: the warps that hold them, registers, shared memory, accesses to global memory.

It may import `lowering.cuda.base`, `lowering.cuda.isa`, and what the reductions of `lowering.cuda.simt` say.
"""
