"""From a `Program` to machine code, by way of MLIR, in a worker process.

It may import `core`; it knows neither the frontend nor the runtime.
"""
