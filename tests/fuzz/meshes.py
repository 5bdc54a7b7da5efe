"""Random graphs of operators on random meshes of 1 to 72 devices: do the shards make up what one device computes?

The mesh and how the arguments lie on it follow from the case: `placed(case)`.
"""

import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

import tessera
from fuzz.check import Outcome, same_bits
from fuzz.graph_check import agreed
from fuzz.graphs import FLOATS, GraphCase
from support.mesh_arrays import Sharded
from tessera import op
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import AmbiguousSharding, NotDifferentiable
from tessera.core.graph.graph import Graph
from tessera.core.placement.mesh import Mesh
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.lowering.sharding.placements import dims_of
from tessera.runtime.interpret.mesh import part_of

DEVICES: Final = 72


@dataclass(frozen=True)
class Placed:
    """A mesh, and the axes that cut each dimension of each argument: ("x y", "")."""

    mesh: Mesh
    cuts: tuple[tuple[str, ...], ...]


def placed(case: GraphCase) -> Placed:
    """Draw a mesh with axes that divide extents of the arguments, most of them, and cuts."""
    source = random.Random(case.seed)
    sizes = [size for each in case.inputs for size in each.shape if size > 1] or [1]
    extents: list[int] = []
    for _ in range(source.choice((1, 1, 2, 2, 3))):
        room = DEVICES // int(np.prod(extents, initial=1))
        size = source.choice(sizes)
        fitting = [n for n in range(2, room + 1) if size % n == 0] or [1]
        extents.append(source.choice(fitting) if source.random() < 0.9 else source.randint(1, room))
    mesh = Mesh.of(tuple("xyz"[: len(extents)]), range(int(np.prod(extents))), extents)
    return Placed(mesh, tuple(_cuts(each.shape, mesh, source) for each in case.inputs))


def _cuts(shape: Iterable[int], mesh: Mesh, source: random.Random) -> tuple[str, ...]:
    left, found = source.sample(mesh.axes, len(mesh.axes)), list[str]()
    for size in shape:
        mine: list[str] = []
        for axis in list(left):
            if source.random() < 0.5 and (size % mesh.size((*mine, axis)) == 0 or source.random() < 0.3):
                left.remove(axis)
                mine.append(axis)
        found.append(" ".join(mine))
    return tuple(found)


def describe(case: GraphCase) -> str:
    """The graph as Python, and where its arguments lie."""
    where = placed(case)
    return f"{case.script()}# {where.mesh}: {dict(zip((each.name for each in case.inputs), where.cuts, strict=True))}\n"


def check_on_mesh(case: GraphCase, target: str, *, slopes: bool | None = None) -> Outcome:
    """Compare a graph on its mesh with the oracle: values, and copies of shards.

    slopes: whether its gradient is compared as well; None: of every third graph
    """
    function, graph = case.captured()
    outcome = _compared(case, function, graph, target)
    wanted = case.seed % 3 == 0 if slopes is None else slopes
    if outcome.kind != "agrees" or not wanted or not (places := _differentiated(case)):
        return outcome
    try:
        derived = tessera.grad(_loss(case.function()), argnums=places)
        gradient = derived.graph_for(*case.arguments()).graph
    except NotDifferentiable:
        return outcome
    found = _compared(case, derived, gradient, target)
    if found.kind != "differs":
        return found
    # Weights that are made again, and a gradient that is as far from the oracle on one device, lost digits, no shard.
    again = bool(derived.executable.plan.again)
    return outcome if again or _alone(case, derived, gradient, target).kind == "differs" else found


def _compared(case: GraphCase, function: GraphFunction[..., Any], graph: Graph, target: str) -> Outcome:
    where = placed(case)
    arrays = [Sharded.of(each, where.mesh, *cuts) for each, cuts in zip(_plain(case), where.cuts, strict=True)]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), overridden(target=target):
            warnings.simplefilter("ignore")
            made = cast("tuple[Sharded, ...]", function(*arrays))
            torn = next((text for each in made if (text := _torn(each))), "")
            if torn:
                return Outcome("differs", torn)
            found = [each.whole for each in made]
            return agreed(graph, function.executable.plan, _plain(case), found, target, cut=True)
    except AmbiguousSharding as mistake:
        return Outcome("ambiguous", str(mistake).splitlines()[0])
    except TesseraError as mistake:
        return Outcome("fails", f"{mistake.code} {str(mistake).splitlines()[0]}")
    except Exception as error:  # noqa: BLE001 - what is no TesseraError is a finding
        return Outcome("fails", f"{type(error).__name__}: {error}")


def _alone(case: GraphCase, function: GraphFunction[..., Any], graph: Graph, target: str) -> Outcome:
    """Compare what one device computes with the oracle."""
    with np.errstate(all="ignore"), warnings.catch_warnings(), overridden(target=target):
        warnings.simplefilter("ignore")
        found = [np.asarray(each) for each in cast("tuple[object, ...]", function(*_plain(case)))]
        return agreed(graph, function.executable.plan, _plain(case), found, target, cut=True)


def _plain(case: GraphCase) -> list[np.ndarray]:
    return [np.array(each, order="C") for each in case.arguments()]


def _differentiated(case: GraphCase) -> tuple[int, ...]:
    return tuple(place for place, each in enumerate(case.inputs) if each.dtype in FLOATS)


def _loss(body: Callable[..., Any]) -> Callable[..., object]:
    """Return a function of one number: half of all that a graph returns, added up."""

    def loss(*given: Tracer) -> object:
        floats = [each for each in body(*given) if each.dtype.is_float]
        return sum((op.sum(op.cast(each, "f32") * 0.5) for each in floats), start=0.0)

    return loss


def _torn(made: Sharded) -> str:
    """Which device's shard is not what the whole has in its place."""
    whole, dims = made.whole, dims_of(made.placement)
    for rank in range(made.mesh.size()):
        mine, wanted = np.atleast_1d(made.shard(rank)), np.atleast_1d(part_of(whole, dims, made.mesh, rank))
        if mine.shape != wanted.shape or not same_bits(mine, wanted).all():
            return f"rank {rank} of {made.type} has another copy"
    return ""
