"""Launches on values of a graph that is being captured: what a layer above does with them instead."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from tessera.runtime.binding.grid import Grid


class Capture(Protocol):
    """Takes a launch into a graph."""

    def __call__(self, kernel: object, values: Sequence[object], grid: Grid | None) -> bool:
        """Return whether it did: False where no value belongs to a graph."""
        ...


class CapturedLaunches:
    """Hold the function that is asked before a kernel is launched; None while nothing captures graphs."""

    capture: ClassVar[Capture | None] = None
