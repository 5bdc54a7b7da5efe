"""From the text of a kernel to a `Program`.

It may import `core`; it knows neither the lowering nor the runtime.
"""
