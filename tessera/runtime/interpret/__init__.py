"""The oracle: executes a `Program` with NumPy, and finds races and other mistakes while it does."""
