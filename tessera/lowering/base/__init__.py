"""The ground floor of the compiler: writing IR, passes, diagnostics, and the tools that targets share.

It may import `core`.
"""
