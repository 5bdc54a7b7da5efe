"""Memory of GPUs: arrays in it, memory that the runtime owns, copies that align rows.

It may import `runtime.streams` and below.
"""
