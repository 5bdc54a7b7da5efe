"""Search for placements of a graph's inputs: dp cuts the batch, tp what makes the graph fastest, pp its kernels.

For each extents, the inputs that are no batch are cut by tp one after the other, each as costs least while the others
stay: coordinate descent, over inputs whose names differ in numbers alone together, as those of layers.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import AmbiguousSharding, BadModel, NoPlanFits
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.link_costs import LINKS
from tessera.core.placement.memory import amount
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split
from tessera.core.planning.device_timeline import VIRTUAL, DeviceTimeline, named_devices
from tessera.core.planning.parallel_plan import (
    FORWARD,
    ParallelPlan,
    PipelineShape,
    PlannedCollective,
    PlanSearch,
    RejectedPlan,
)
from tessera.lowering.graph.expand_calls import expand_calls
from tessera.lowering.graph.expand_random import expand_random
from tessera.lowering.graph.prune_bodies import prune_bodies
from tessera.lowering.graph.simplify import simplify
from tessera.performance.parallel.graph_costs import SpreadGraph, balanced, operations, spread
from tessera.performance.parallel.pipeline import StageTimes, simulate
from tessera.performance.parallel.search import compared, extents_of, spread_over

NOTES: Final = (
    "products run at two thirds of the data sheet's rate, other kernels at that of memory, and maps are part of them",
    "collectives overlap with nothing",
    "stages of a pipeline are consecutive parts of the function",
)
_MOST_PARTS: Final = 32
_PASSES: Final = 2


class HasGraph(Protocol):
    """A captured function."""

    @property
    def graph(self) -> Graph:
        """Return the graph."""
        ...


@runtime_checkable
class GraphSource(Protocol):
    """A function of operators, which gives its graph for arguments without running."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def graph_for(self) -> Callable[..., HasGraph]:
        """Return the graph for arguments like these."""
        ...


def search_graph(
    source: GraphSource, mesh: Mesh, arguments: Sequence[object], batch: Sequence[str], capacity: int
) -> PlanSearch:
    """Return the plans of a function on the devices of a mesh.

    batch: names of the inputs whose first dimension dp cuts; none: the first one; capacity: bytes of a device
    Raises NoPlanFits where none fits, BadModel for a name that no input has.
    """
    traced = source.graph_for(*map(_example, arguments)).graph
    graph = simplify(prune_bodies(expand_random(expand_calls(traced))))
    found = _GraphSearch(source.name, graph, mesh, _batch_of(graph, batch), capacity)
    found.run()
    if not found.plans:
        what = found.smallest or f"{source.name}: no dp x tp x pp = {mesh.size()} divides its extents"
        raise at_call(NoPlanFits(what, hint=found.remedy()))
    ranked = sorted(found.plans, key=lambda plan: plan.seconds)
    slower = [
        RejectedPlan(each.name, compared(each, ranked[0]), each.seconds, each.bytes_per_device) for each in ranked[1:]
    ]
    return PlanSearch(source.name, mesh.size(), tuple(ranked[:6]), (*slower, *found.rejected), found.tried, NOTES)


def _example(given: object) -> object:
    """Return arguments with arrays of no memory for types in words."""
    if isinstance(given, list | tuple):
        found = [_example(each) for each in cast("Sequence[object]", given)]
        return found if isinstance(given, list) else tuple(found)
    if isinstance(given, dict):
        return {name: _example(each) for name, each in cast("dict[str, object]", given).items()}
    if not isinstance(given, str):
        return given
    kind = ShardedType.parse(given)
    return np.broadcast_to(np.zeros((), kind.dtype.numpy), kind.shape)


def _batch_of(graph: Graph, names: Sequence[str]) -> tuple[Value, ...]:
    if not names:
        return graph.inputs[:1]
    known = {value.name: value for value in graph.inputs}
    for name in names:
        if name not in known:
            hint = f"its inputs are {', '.join(known)}"
            raise at_call(BadModel(f"{graph.name} has no input {name!r}", hint=hint))
    return tuple(known[name] for name in names)


_Priced: TypeAlias = tuple[tuple[int, float, int], Mapping[Value, Placement], SpreadGraph]


@dataclass
class _GraphSearch:
    """A search while it runs.  smallest: the way that needs least memory, in words."""

    name: str
    graph: Graph
    mesh: Mesh
    batch: tuple[Value, ...]
    capacity: int
    plans: list[ParallelPlan] = field(default_factory=list[ParallelPlan])
    rejected: list[RejectedPlan] = field(default_factory=list[RejectedPlan])
    tried: int = 0
    smallest: str = ""
    _least: int = 0

    def run(self) -> None:
        """Price every way."""
        for dp, tp, pp in extents_of(self.mesh.size()):
            name = f"dp {dp} x tp {tp} x pp {pp}"
            reason = self._indivisible(dp)
            way = None if reason else self._cut(spread_over(self.mesh, dp, tp, pp))
            if way is None:
                reason = reason or f"tp {tp} divides no input that could be cut"
                self.rejected.append(RejectedPlan(name, reason, fits=False))
                continue
            made = list(self._plans(way, dp, pp))
            if not made:
                reason = f"{pp} stages need as many kernels, and a batch of several parts"
                self.rejected.append(RejectedPlan(name, reason, fits=False))
                continue
            self._take(name, made)

    def _take(self, name: str, made: Sequence[ParallelPlan]) -> None:
        fits = [each for each in made if each.bytes_per_device <= self.capacity]
        if fits:
            self.plans.append(min(fits, key=lambda each: each.seconds))
            return
        least = min(made, key=lambda each: each.bytes_per_device)
        text = f"{amount(least.bytes_per_device)} a device of {amount(self.capacity)}"
        self.rejected.append(RejectedPlan(name, text, 0.0, least.bytes_per_device, fits=False))
        if not self._least or least.bytes_per_device < self._least:
            self._least, self.smallest = least.bytes_per_device, f"{self.name}: at least {text}, with {name}"

    def remedy(self) -> str:
        """Say how many devices would do, were everything cut evenly."""
        if not self._least:
            return "take a number of devices that divides the batch, or the inputs"
        count = -(-self._least * self.mesh.size() // self.capacity)
        return f"cut evenly over {count:,} devices or more it would fit; a smaller batch needs less"

    def _indivisible(self, dp: int) -> str:
        for value in self.batch:
            rows = value.type.shape[0] if value.type.shape else 1
            if rows % dp:
                return f"dp {dp} does not divide the {rows:,} rows of {value.name}"
        return ""

    def _cut(self, mesh: Mesh) -> SpreadGraph | None:
        """Return the graph with the placements of inputs that cost least; None where tp cuts nothing."""
        placements = {value: _cut_by(value, 0, "dp") for value in self.batch if value.type.shape}
        placements |= {
            value: Placement.replicated(len(value.type.shape)) for value in self.graph.inputs if value not in placements
        }
        best = self._priced(mesh, placements)
        tp = mesh.size("tp")
        for _ in range(_PASSES if tp > 1 else 0):
            for group in self._groups():
                for dimension in range(len(group[0].type.shape)):
                    if any(value.type.shape[dimension] % tp for value in group):
                        continue
                    tried = {
                        **(best[1] if best else placements),
                        **{value: _cut_by(value, dimension, "tp") for value in group},
                    }
                    found = self._priced(mesh, tried)
                    if found is not None and (best is None or found[0] < best[0]):
                        best = found
        if best is None or (tp > 1 and not any("tp" in each.axes for each in best[1].values())):
            return None
        return best[2]

    def _groups(self) -> Sequence[Sequence[Value]]:
        """Return inputs that are cut alike: no batch, of one shape, with names that differ in numbers alone."""
        found: dict[object, list[Value]] = {}
        for number, value in enumerate(self.graph.inputs):
            if value not in self.batch and value.type.shape:
                key = (re.sub(r"\d+", "#", value.name) or number, value.type)
                found.setdefault(key, []).append(value)
        return sorted(found.values(), key=lambda group: -group[0].type.bytes * len(group))

    def _priced(self, mesh: Mesh, placements: Mapping[Value, Placement]) -> _Priced | None:
        """Return a way with its price: what it lacks of memory first, then seconds."""
        self.tried += 1
        try:
            found = spread(self.graph, mesh, placements)
        except AmbiguousSharding:  # such placements say too little: others are tried
            return None
        seconds = sum(found.node_seconds) + sum(each.seconds for each in found.collectives)
        memory = sum(found.memory.values())
        return (max(0, memory - self.capacity), round(seconds, 9), memory), placements, found

    def _plans(self, way: SpreadGraph, dp: int, pp: int) -> Iterator[ParallelPlan]:
        begins = balanced(way.node_seconds, pp)
        if begins is None:
            return
        rows = min((value.type.shape[0] // dp for value in self.batch if value.type.shape), default=1)
        for parts in range(1, min(rows, _MOST_PARTS) + 1):
            if rows % parts == 0 and (pp > 1 or parts == 1) and (parts > 1 or pp == 1):
                yield self._plan(replace(way, stages=begins, micro_batches=parts), rows // parts)

    def _plan(self, way: SpreadGraph, rows: int) -> ParallelPlan:
        mesh, shape = way.mesh, PipelineShape(FORWARD, len(way.stages), way.micro_batches, rows)
        sending = LINKS.cost("send", mesh, ("pp",), way.sent_between)
        times = [StageTimes(kernels, 0.0, joining) for kernels, joining in way.stage_seconds()]
        share = mesh.size() // shape.stages
        names = {
            stage: (f"stage {stage}, {named_devices(devices)}" if shape.stages > 1 else named_devices(devices), devices)
            for stage in range(shape.stages)
            for devices in [tuple(range(stage * share, (stage + 1) * share))]
        }
        run = simulate(shape, times, sending.seconds, sending.sent, names, sending.basis)
        timeline = DeviceTimeline(
            f"{self.name}: dp {mesh.size('dp')} x tp {mesh.size('tp')} x pp {shape.stages}",
            VIRTUAL,
            run.rows,
            NOTES,
        )
        sends = (PlannedCollective("send", "values", ("pp",), shape.micro_batches, sending),) if sending.seconds else ()
        compute = max(each.forwards for each in times) * shape.micro_batches
        return ParallelPlan(
            self.name, mesh, shape, way.memory, self.capacity, compute, (*way.collectives, *sends), run.seconds,
            run.bubble, float(sum(map(operations, self.graph.nodes))), way.layouts, (), timeline,
        )  # fmt: skip


def _cut_by(value: Value, dimension: int, axis: str) -> Placement:
    splits = [Split() for _ in value.type.shape]
    splits[dimension] = Split((axis,))
    return Placement(tuple(splits))
