"""Models of cost: what a machine can do, how much work a launch is, the roofline of the two.

It may import `core` and `runtime`.
"""
