"""Launches: on the CPU, on a GPU, by the interpreter; guards and launch plans for repeated calls; graphs and copies.

It may import every other folder of the runtime.
"""
