"""Matrix products: wgmma, mma.sync and fma chains, their operands, and main loops that overlap with other work.

It may import `lowering.cuda.pipeline` and below.
"""
