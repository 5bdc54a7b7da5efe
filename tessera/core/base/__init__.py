"""The floor of the package: source spans, element types, the association of reductions, small constants.

It imports nothing of the package.
"""
