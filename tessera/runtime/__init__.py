"""Artifacts on machines: arguments, memory, launches, streams.  It never sees MLIR.

It may import `core`; it knows neither the frontend nor the lowering.
"""
