"""A graph made ready for a mesh: cut, planned and compiled once for all devices, which run it step by step together.

All devices of a mesh have the same kernels.  Those that are simulated, and shards of the CPU, run one after the other,
each with all threads of the CPU; GPUs run side by side, in the order of their default streams.  Between two collectives
nothing is said between them.  Where the mesh does not divide an extent, shards have different lengths: they are padded
to that of the largest one before the graph runs, and those that it makes are trimmed behind it.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tessera.core.errors.catalog import NeedsMesh
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.devices import ON_GPU, Device
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.planning.device_timeline import DeviceTimeline
from tessera.core.settings import Settings, current
from tessera.graphs.executable import Executable
from tessera.graphs.execution.frames import Workspace
from tessera.graphs.execution.mesh_calls import MeshCalls
from tessera.graphs.execution.mesh_timeline import PICO, MeshWatch, planned_timeline, watched_timeline
from tessera.graphs.execution.prepared import PreparedGraph
from tessera.graphs.execution.supply import DeviceSupply, Supply, supply_of
from tessera.graphs.planning.plan_choice import run_price
from tessera.graphs.planning.settled_graph import SettledGraph, settle
from tessera.kernels.options import Options
from tessera.kernels.target_choice import chosen_target
from tessera.lowering.graph.explain import Alternatives
from tessera.lowering.graph.explain import explain as explain_rewriting
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.sharding.explain import explain
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import local_type
from tessera.lowering.sharding.propagate import propagate
from tessera.lowering.sharding.sharded_graph import ShardedGraph
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.device_shards import Shard, copied, on, resized, store
from tessera.runtime.memory.operands import Operand, operand, packed
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import HostCall, recording
from tessera.session.session import Session

_KINDS: Final = 2
"""Kinds of arrays whose calls are remembered."""


class MeshExecutable(Executable):
    """Runs a graph on arrays that lie on a mesh.

    traced: the graph as a whole; what is planned and compiled is that of one device
    placements: of inputs, and of other values where the user says so
    outputs: what outputs are to have; None: as they are made
    """

    def __init__(
        self, traced: Graph, mesh: Mesh, placements: Mapping[Value, Placement],
        outputs: Sequence[Placement | None] = (), *, options: Options | None = None, home: Session | None = None,
        algebra: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(traced, options, home, algebra)
        self.mesh = mesh
        self._given, self._wanted = placements, outputs
        self._known_calls: tuple[tuple[Settings, MeshCalls], ...] = ()
        self._last_prepared: PreparedGraph | None = None
        self._served: dict[PreparedGraph, bool] = {}

    @cached_property
    def uncut(self) -> Graph:
        """The graph as a whole, simplified."""
        return simplify(self._expanded())

    @cached_property
    def settled(self) -> SettledGraph:
        """The graph as a whole, rewritten by what all sizes of the mesh have in common."""
        return settle(self.uncut, self.algebra)

    @cached_property
    def alternatives(self) -> Alternatives:
        """Rewritten graphs that were chosen and rejected, with prices, as a whole; computed when asked for."""
        return explain_rewriting(self.uncut, self.algebra, self.settled.place, on_mesh=True)

    @property
    def recomputes(self) -> bool | None:
        """Tell whether kernels compute weights again, as was settled for all sizes of the mesh."""
        return self.settled.recomputes

    @cached_property
    def sharded(self) -> ShardedGraph:
        """The graph as a whole, with the placement of every value.  Raises AmbiguousSharding."""
        return propagate(self.settled.graph, self.mesh, self._given, self._wanted)

    @cached_property
    def simplified(self) -> Graph:
        """The graph of one device, which holds collectives."""
        return simplify(partition(self.sharded))

    @cached_property
    def states(self) -> tuple[tuple[str, Graph], ...]:
        """The graph as it was captured, and after each pass; `graph-partition` makes the graph of one device."""
        first, second, *others = super().states
        rewritten = [("graph-rewrite", self.settled.graph)] if self.settled.is_rewritten else []
        return (first, ("graph-simplify", self.uncut), *rewritten, ("graph-partition", second[1]), *others)

    def explain(self, only: Value | None = None) -> str:
        """Return why values lie as they do, and what each collective costs; see `lowering/sharding/explain.py`."""
        return explain(self.sharded, only)

    def timeline(self) -> DeviceTimeline:
        """Return what the devices would do on a virtual clock: shapes decide, nothing runs or is compiled."""
        return planned_timeline(self.plan, self.mesh, lambda group: run_price(group) / PICO)

    def watched(self, *arrays: object) -> tuple[tuple[object, ...], DeviceTimeline]:
        """Return the outputs, and what each device did when, in the host's time.  Raises NeedsMesh."""
        watch = MeshWatch()
        made = self._arrays(arrays, self.run_on(arrays, watch))
        return made, watched_timeline(self.plan, self.mesh, watch)

    def __call__(self, *arrays: object) -> tuple[object, ...]:
        """Return the outputs for arrays on the mesh; others are on every device.

        Inside of a capture they are computed whenever the graph is launched.  Raises NeedsMesh.
        """
        noted = recording()
        if noted is None:
            return self.again(arrays) or self._at_first(arrays)
        self._require_one_kind()
        places = [
            [np.zeros(shape, kind.dtype.numpy) for shape in shapes]
            for kind, shapes in zip(self.output_types, self._output_shapes, strict=True)
        ]
        results = self._arrays(arrays, places)
        noted.add(None, HostCall(self.traced.name, CapturedMeshGraph(self, arrays, results)), (arrays, results))
        return results

    @property
    def called(self) -> bool:
        """True where `again` may know a call."""
        return bool(self._known_calls)

    def again(self, arrays: Sequence[object]) -> tuple[object, ...] | None:
        """Return the outputs for arrays like those of an earlier call; None, having done nothing, for others."""
        for settings, calls in self._known_calls:
            if settings is current() and (shards := calls(arrays)) is not None:
                return self._arrays(arrays, shards)
        return None

    def _at_first(self, arrays: Sequence[object]) -> tuple[object, ...]:
        """Return the outputs, and keep what further calls on such arrays need."""
        results = self._arrays(arrays, self.run_on(arrays))
        prepared = self._last_prepared
        if prepared is not None and prepared not in self._served:
            self._served[prepared] = MeshCalls.serves(prepared, self.mesh, self.output_types)
        if prepared is not None and self._served[prepared]:
            supplies = [_supply(device, rank) for rank, device in enumerate(self.mesh.devices)]
            calls = MeshCalls.of(prepared, self.mesh, arrays, supplies)
            if calls is not None:
                self._known_calls = ((current(), calls), *self._known_calls[: _KINDS - 1])
        return results

    def run_on(self, arrays: Sequence[object], watch: MeshWatch | None = None) -> list[list[Shard]]:
        """Return the shards of each output for arrays on the mesh, once nothing writes these any more."""
        for each in arrays:
            if isinstance(each, MeshArray):
                each.wait(writing=False)
        shards = [
            [each.shard(rank) if isinstance(each, MeshArray) else each for rank in range(self.mesh.size())]
            for each in arrays
        ]  # fmt: skip
        return self.run(shards, watch)

    def _arrays(self, arrays: Sequence[object], shards: Sequence[Sequence[Shard]]) -> tuple[MeshArray, ...]:
        like = next(each for each in arrays if isinstance(each, MeshArray))
        return tuple(like.made(kind, each) for kind, each in zip(self.output_types, shards, strict=True))

    @cached_property
    def output_types(self) -> tuple[ShardedType, ...]:
        """The types of the outputs."""
        outputs = zip(self.sharded.graph.outputs, self.sharded.outputs, strict=True)
        return tuple(ShardedType(value.type.dtype, value.type.shape, placement) for value, placement in outputs)

    @cached_property
    def _output_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each output the shape of each rank's shard."""
        maps = [kind.on(self.mesh) for kind in self.output_types]
        return tuple(tuple(each.local_shape(rank) for rank in range(self.mesh.size())) for each in maps)

    @cached_property
    def _padded(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of one device's inputs."""
        places = self.sharded.placements
        return tuple(local_type(value.type, places[value], self.mesh).shape for value in self.sharded.graph.inputs)

    def run(self, inputs: Sequence[Sequence[object]], watch: MeshWatch | None = None) -> list[list[Shard]]:
        """Return the shards of each output, for the shards of each input, in the order of ranks.

        watch: is told when each step of each device begins and ends
        Raises NeedsMesh for a mesh of devices of several kinds.
        """
        self._require_one_kind()
        mine = [
            [self._lying(shards[rank], rank, shape) for shards, shape in zip(inputs, self._padded, strict=True)]
            for rank in range(self.mesh.size())
        ]
        first = [each.value for each in mine[0]]
        target = chosen_target(self.options, first)
        aligned = tuple(
            all(each.on_device and self._aligned(each) for each in rank) for rank in zip(*mine, strict=True)
        )
        prepared = self._last_prepared = self.prepared(target, aligned, first)
        made = _run_together(prepared, self.mesh, mine, watch)
        return [
            [resized(_own(outputs[place], mine), shapes[rank]) for rank, outputs in enumerate(made)]
            for place, shapes in enumerate(self._output_shapes)
        ]

    def _require_one_kind(self) -> None:
        kinds = {device.kind for device in self.mesh.devices}
        if len(kinds) > 1:
            raise NeedsMesh(
                f"a graph runs on devices of one kind, and the mesh has {' and '.join(sorted(kinds))}",
                hint='write devices=range(n) for simulated ones, or "cuda:0", "cuda:1", ...',
            )

    def _lying(self, shard: object, rank: int, shape: tuple[int, ...]) -> Operand[object]:
        """Return a shard without gaps in the memory of its device, padded to the shape that all devices have."""
        device = self.mesh.devices[rank]
        if device.kind == ON_GPU and isinstance(shard, DeviceArray | np.ndarray | int | float):
            shard = on(device, np.asarray(shard) if isinstance(shard, int | float) else shard)
        found = packed(operand(shard, "an input"))
        if found.view.shape == shape:
            return found
        held: Shard = found.view
        if found.on_device:  # of any library
            held = DeviceArray.over(address(held), held.shape, held.dtype, device.index, found.value)
        return operand(resized(held, shape), "an input")


@dataclass(frozen=True, slots=True, eq=False)
class CapturedMeshGraph:
    """A graph on a mesh in a captured graph of launches: from the same arrays, into the same ones."""

    executable: MeshExecutable
    arrays: Sequence[object]
    results: Sequence[MeshArray]

    def run(self) -> None:
        """Compute the results anew."""
        for array, made in zip(self.results, self.executable.run_on(self.arrays), strict=True):
            array.wait(writing=True)
            for rank, shard in enumerate(made):
                store(array.shard(rank), shard)

    def cancel(self) -> None:
        """Do nothing: the steps of a graph end by themselves."""


def in_blocks(kind: ShardedType) -> bool:
    """Return whether graphs take arrays that lie so: every device has one block of rows that follow each other."""
    return not any(split.block for split in kind.placement.splits)


def placements_of(
    inputs: Sequence[Value], places: Sequence[tuple[Mesh, Placement] | None]
) -> tuple[Mesh, dict[Value, Placement]]:
    """Return the mesh that arrays lie on, and the placement of each; those of None are on every device.

    Raises NeedsMesh for arrays of two meshes, and for shards that are not blocks.
    """
    found: dict[Value, Placement] = {}
    meshes: dict[Mesh, str] = {}
    for value, place in zip(inputs, places, strict=True):
        if place is None:
            continue
        mesh, placement = place
        meshes.setdefault(mesh, value.name or "an array")
        kind = ShardedType(value.type.dtype, value.type.shape, placement)
        if not in_blocks(kind):
            raise NeedsMesh(
                f"{value.name or 'an array'}: {kind} is not cut into one block a device, which graphs need",
                hint="reshard it: x.reshard(dist.ShardSpec(...)) without block=",
            )
        found[value] = placement
    if len(meshes) > 1:
        (first, one), (second, other), *_ = meshes.items()
        raise NeedsMesh(f"{one} lies on {first}, and {other} on {second}", hint="put both on one mesh")
    return next(iter(meshes)), found


def _run_together(
    prepared: PreparedGraph, mesh: Mesh, inputs: Sequence[Sequence[Operand[object]]], watch: MeshWatch | None
) -> list[list[Operand[object]]]:
    """Run on all devices, in an arena for each."""
    with ExitStack() as arenas:
        workspaces = [
            Workspace(arenas.enter_context(prepared.frames.lent(_supply(device, rank))))
            for rank, device in enumerate(mesh.devices)
        ]
        if watch is not None:
            watch.begin()
        return prepared.run_together(inputs, workspaces, mesh, None if watch is None else watch.tell)


def _supply(device: Device, rank: int) -> Supply:
    """Return the memory of a device; ranks on the host have arenas of their own."""
    if device.kind == ON_GPU:
        return DeviceSupply(device.index)
    return supply_of(operand(np.empty(0, np.float32), "out"), rank)


def _own(made: Operand[object], inputs: Sequence[Sequence[Operand[object]]]) -> Shard:
    """Return an output that is no input: a copy of one that is."""
    given = any(np.shares_memory(made.view, each.view) for mine in inputs for each in mine)
    whole = made.value if made.on_device else made.view
    return copied(whole) if given else whole
