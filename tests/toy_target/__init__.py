"""A target as small as can be: it prints Tile IR as Python, and runs the text with NumPy.

This folder and the row `TOY` are all that a target takes; nothing in the package knows of it.
"""

from tessera.core.targets import TargetKind

TOY = TargetKind(
    "toy", "showing how a target is added", ("source", "tile", "python"), "toy_target.backend", "toy_target.runtime"
)
