"""PTX instructions that have no operation of their own, one function for each, by the architecture that brought them.

It may import `lowering.cuda.base`.
"""
