"""The oracle: executes a `Program` with NumPy, and finds races and other mistakes while it does.

It may import `core` and shares no code with the compiler.
"""
