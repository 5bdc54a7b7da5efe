"""Note collectives in graphs of launches: the host does them anew, from the same values into the same results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from tessera.core.errors.catalog import BadCapture
from tessera.core.placement.mesh_array import MeshArray
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.streams.graph_capture import CapturedGraph, HostCall, suspended

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class CapturedCollective:
    """A collective in a captured graph.  results: a list by rank, or an array on a mesh."""

    call: Callable[[], object]
    results: object

    def run(self) -> None:
        """Compute the results anew."""
        for place, made in zip(_arrays(self.results), _arrays(self.call()), strict=True):
            np.copyto(place, made)

    def cancel(self) -> None:
        """Do nothing: a collective ends by itself."""


def captured_collective(noted: CapturedGraph, name: str, call: Callable[[], R]) -> R:
    """Note a collective, and return its results, which are computed whenever the graph is launched.

    It runs once to learn what they are.  Raises BadCapture for results that are not arrays of NumPy.
    """
    with suspended():
        first = call()
    results = first if isinstance(first, MeshArray) else _own(name, first)
    noted.add(None, HostCall(name, CapturedCollective(call, results)), results)
    return cast("R", results)


def _own(name: str, results: object) -> list[AnyArray]:
    found = list(cast("Sequence[object]", results)) if isinstance(results, list | tuple) else []
    if not found or not all(isinstance(each, np.ndarray) for each in found):
        raise BadCapture(f"{name} of such values cannot be part of a graph", hint="call it outside of the capture")
    made: dict[int, AnyArray] = {}  # ranks that share a result share its copy
    for each in found:
        made.setdefault(id(each), np.array(each))
    return [made[id(each)] for each in found]


def _arrays(results: object) -> list[AnyArray]:
    if not isinstance(results, MeshArray):
        return cast("list[AnyArray]", results)
    results.wait(writing=True)
    return [results.shard(rank) for rank in range(results.mesh.size())]
