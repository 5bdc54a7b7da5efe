"""Search for the fastest parameters of a kernel: the space, compilation ahead, rounds of timing, records.

It may import `profiling`, `kernels` and below.
"""
