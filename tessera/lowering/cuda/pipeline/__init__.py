"""Software pipelines in shared memory: mbarriers between a producer and consumers, and cp.async.

It may import `lowering.cuda.schedule`, `lowering.cuda.storage` and below.
"""
