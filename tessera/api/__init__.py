"""The public interface: the decorators, source text as modules, streams and graphs.

It may import everything but `ops` and `viz`.
"""
