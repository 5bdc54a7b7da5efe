"""Graphs of operations with nested regions: the view model, its makers, and layouts that stay put between passes.

`model` and `layout` know nothing of Tile IR: whatever has nodes, edges and regions is shown by the same view.
"""
