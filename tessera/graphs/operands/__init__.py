"""Operands of captured operators: Python's operators on values, and Python numbers beside arrays."""
