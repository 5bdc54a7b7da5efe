"""The function of a tile kernel: producer and consumer roles, and the emitter that walks Tile IR once for each.

It may import every other folder of `lowering.cuda`.
"""
