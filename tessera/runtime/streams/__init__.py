"""Streams and events, the scheduler that shares a device between streams, and graph capture.

It may import `runtime.driver` and below.
"""
