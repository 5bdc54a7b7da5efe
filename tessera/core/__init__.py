"""Data that every part of Tessera shares: artifacts, targets, settings, layouts, listings, events.

It says what things are and computes little.  It imports the folders in it, and nothing else of the package.
"""
