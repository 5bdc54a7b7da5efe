"""The order in which a persistent kernel takes its tiles: rasterization, load balance, broadcast to the consumers.

It may import `lowering.cuda.pipeline` and below.
"""
