"""Call a prepared graph on a mesh of devices of the host, with launches that were bound before.

Each device has a frame, and the rows of launches between two collectives are bound to it, see `host_calls`.  A call
writes where shards lie, runs a row on every device, and joins.  Shards of different lengths, steps other than kernels
and collectives, and calls that are captured or watched go the long way.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.placement.devices import ON_GPU, SIMULATED
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.reduction_trees import Fold, ReductionTree
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.schedule.plan import Plan
from tessera.graphs.execution.collective_step import CollectiveStep
from tessera.graphs.execution.engine_collectives import join_by_engine
from tessera.graphs.execution.frames import Frame
from tessera.graphs.execution.host_calls import BoundHostGraph, HostSequence, is_bound
from tessera.graphs.execution.prepared import PreparedGraph
from tessera.graphs.execution.supply import Supply
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.pointers import address
from tessera.runtime.interpret.mesh import join_into
from tessera.runtime.streams.graph_capture import CaptureSession

Shards: TypeAlias = Sequence[AnyArray]
"""The arrays of all ranks."""
Reader: TypeAlias = Callable[[object], Shards | None]
"""Returns the shards of an array like the one it was results for; None for any other."""


class MeshCalls:
    """Calls of the graph of one device on all devices of a mesh; from any thread.

    supplies: the memory of each device
    """

    def __init__(
        self, callee: PreparedGraph, mesh: Mesh, readers: Sequence[Reader], supplies: Sequence[Supply]
    ) -> None:  # fmt: skip
        self._callee, self._mesh, self._readers, self._supplies = callee, mesh, tuple(readers), tuple(supplies)
        plan, graph = callee.plan, callee.graph
        self._inputs = graph.inputs
        self._outputs = tuple((value, plan.root(value)) for value in graph.outputs)
        self._ranks = range(mesh.size())

    @staticmethod
    def serves(callee: PreparedGraph, mesh: Mesh, outputs: Sequence[ShardedType]) -> bool:
        """Return whether calls of a graph have a quick way, on some arrays."""
        if any(device.kind == ON_GPU for device in mesh.devices) or not any(map(is_bound, callee.steps)):
            return False
        roots = {callee.plan.root(value) for value in callee.graph.outputs}
        if len(roots) < len(outputs) or not roots.isdisjoint(callee.graph.inputs):
            return False
        if not all(is_bound(step) or isinstance(step, CollectiveStep) for step in callee.steps):
            return False
        types = zip(outputs, callee.graph.outputs, strict=True)
        return all(_is_even(kind, mesh, value.type.shape) for kind, value in types)

    @staticmethod
    def of(
        callee: PreparedGraph, mesh: Mesh, arrays: Sequence[object], supplies: Sequence[Supply]
    ) -> "MeshCalls | None":  # fmt: skip
        """Return the calls on arrays like these, of a graph that has a quick way; None where these have none."""
        readers = [_reader(array, value.type, mesh) for array, value in zip(arrays, callee.graph.inputs, strict=True)]
        quick = [reader for reader in readers if reader is not None]
        return MeshCalls(callee, mesh, quick, supplies) if len(quick) == len(readers) else None

    def __call__(self, arrays: Sequence[object]) -> list[list[AnyArray]] | None:
        """Return the shards of each output; None, having done nothing, where arrays or the situation are others."""
        if len(arrays) != len(self._readers) or CaptureSession.count:
            return None
        operands: list[Shards] = []
        for read, array in zip(self._readers, arrays, strict=True):
            shards = read(array)
            if shards is None:
                return None
            operands.append(shards)
        results = [
            [np.empty(value.type.shape, value.type.dtype.numpy) for _ in self._ranks] for value, _ in self._outputs
        ]
        moving: list[dict[Value, AnyArray]] = []
        for rank in self._ranks:
            arrays_of = {value: shards[rank] for value, shards in zip(self._inputs, operands, strict=True)}
            arrays_of.update((root, outs[rank]) for (_, root), outs in zip(self._outputs, results, strict=True))
            moving.append(arrays_of)
        with ExitStack() as lent:
            frames = [lent.enter_context(self._callee.frames.lent(supply)) for supply in self._supplies]
            self._run(frames, moving)
        return results

    def _run(self, frames: Sequence[Frame], moving: Sequence[Mapping[Value, AnyArray]]) -> None:
        parts = self._bound(frames)
        addresses = [{value: address(array) for value, array in arrays_of.items()} for arrays_of in moving]
        with np.errstate(all="ignore"):
            for part in parts:
                if isinstance(part, BoundCollective):
                    part.run(moving)
                else:
                    for sequence, of_rank in zip(part, addresses, strict=True):
                        sequence.run(of_rank)

    def _bound(self, frames: Sequence[Frame]) -> "Sequence[Row]":
        """Return the rows of launches of all devices, and collectives between them, bound to these frames."""
        first = frames[0]
        bound = first.bound_on_mesh
        if bound is None or any(one is not other for one, other in zip(bound.frames, frames, strict=True)):
            bound = first.bound_on_mesh = BoundMesh(tuple(frames), self._rows(frames))
        return cast("BoundMesh", bound).rows

    def _rows(self, frames: Sequence[Frame]) -> "tuple[Row, ...]":
        rows: list[Row] = []
        plan, graphs = self._callee.plan, [BoundHostGraph(self._callee, frame) for frame in frames]
        for parts in zip(*(graph.parts for graph in graphs), strict=True):
            if isinstance(parts[0], HostSequence):
                rows.append(cast("tuple[HostSequence, ...]", parts))
            else:
                rows.append(BoundCollective(cast("CollectiveStep", parts[0]).node, plan, self._mesh, frames))
        return tuple(rows)


@dataclass(frozen=True, slots=True, eq=False)
class BoundMesh:
    """The rows of a graph bound to a frame for each device."""

    frames: tuple[Frame, ...]
    rows: "tuple[Row, ...]"


class BoundCollective:
    """A collective whose operands and results lie in frames, but for those that lie elsewhere in each call."""

    def __init__(self, node: Node, plan: Plan, mesh: Mesh, frames: Sequence[Frame]) -> None:
        self._node, self._mesh = node, mesh
        self._held, self._results = (_Arrays(value, plan, frames) for value in (node.operands[0], node.result))
        self._folds: tuple[_BoundFold, ...] = ()
        held = self._held.fixed
        groups = mesh.along(cast("tuple[str, ...]", node.attributes["axes"]))
        if held is not None and mesh.devices[0].kind == SIMULATED and _BoundFold.serves(node):
            self._folds = tuple(_BoundFold([held[rank] for rank in group], group) for group in groups)

    def run(self, moving: Sequence[Mapping[Value, AnyArray]]) -> None:
        """Write what each device has after it.

        moving: the arrays of this call, by their values
        """
        results = self._results.arrays(moving)
        if self._folds:
            for fold in self._folds:
                fold.run(results)
        else:
            join(self._node, self._mesh, self._held.arrays(moving), results)


class _Arrays:
    """A value's arrays on all devices.

    fixed: those in frames; None where they lie elsewhere in each call
    """

    def __init__(self, value: Value, plan: Plan, frames: Sequence[Frame]) -> None:
        self._root, self._shape = plan.root(value), value.type.shape
        self.fixed: tuple[AnyArray, ...] | None = None
        if self._root in frames[0].views:
            self.fixed = tuple(frame.views[self._root].view.reshape(self._shape) for frame in frames)

    def arrays(self, moving: Sequence[Mapping[Value, AnyArray]]) -> Shards:
        """Return them."""
        return self.fixed or [arrays_of[self._root].reshape(self._shape) for arrays_of in moving]


class _BoundFold:
    """The sum over one group of ranks: additions in the order of the tree, into memory of its own, then copies.

    The additions of `fold_reference`, one by one, without looking at types, trees and views again.
    """

    def __init__(self, parts: Shards, group: Sequence[int]) -> None:
        self._group = tuple(group)
        self._additions: list[tuple[AnyArray, AnyArray, AnyArray]] = []
        self._total = self._node(ReductionTree.binary(len(parts)).leaf_fold(), parts)
        self._flat = self._total.reshape(-1)

    @staticmethod
    def serves(node: Node) -> bool:
        """Return whether a collective is a sum over ranks, of floats that are added in their own type."""
        kind, reduction = node.attributes["kind"], node.attributes["reduction"]
        return kind == "all_reduce" and reduction == "sum" and node.result.type.dtype in (f32, f64)

    def _node(self, fold: Fold, leaves: Shards) -> AnyArray:
        """Return where a node of the tree lies, which is added there from now on."""
        if isinstance(fold, int):
            return leaves[fold]
        left, right = (self._node(part, leaves) for part in fold)
        total: AnyArray = np.empty_like(left)
        self._additions.append((left, right, total))
        return total

    def run(self, results: Shards) -> None:
        """Add, and write the total to the results of the group's ranks: with one NaN in the place of all."""
        for left, right, total in self._additions:
            np.add(left, right, total)
        total = self._total
        squares = np.dot(self._flat, self._flat)  # NaN where an element is: nothing is subtracted
        if squares != squares:  # noqa: PLR0124
            total = np.where(np.isnan(total), total.dtype.type(np.nan), total)  # of one rank it is the operand
        for rank in self._group:
            results[rank][...] = total


Row: TypeAlias = "tuple[HostSequence, ...] | BoundCollective"
"""A row of launches on each device, or a collective."""


def join(node: Node, mesh: Mesh, held: Shards, results: Shards) -> None:
    """Write what each device has after a collective; by the engine of the devices, or the oracle of simulated ones."""
    if mesh.devices[0].kind == SIMULATED:  # as all of them
        join_into(node, mesh, held, results)
    else:
        join_by_engine(node, mesh, [each.reshape(-1) for each in held], [each.reshape(-1) for each in results])


def _is_even(kind: ShardedType, mesh: Mesh, shape: Sequence[int]) -> bool:
    """Return whether the shards of all devices have the shape that they are computed in."""
    placed = kind.on(mesh)
    return all(placed.local_shape(rank) == tuple(shape) for rank in range(mesh.size()))


def _reader(like: object, kind: Tensor, mesh: Mesh) -> Reader | None:
    """Return what reads the shards of arrays like this one; None for those that have no quick way."""
    if isinstance(like, MeshArray):
        return _mesh_reader(like, mesh) if _is_even(like.type, mesh, kind.shape) else None
    if type(like) is np.ndarray and like.shape == kind.shape:
        return _host_reader(like, mesh.size())
    return None


def _mesh_reader(like: MeshArray, mesh: Mesh) -> Reader:
    placed = like.type

    def read(value: object) -> Shards | None:
        if not isinstance(value, MeshArray) or value.mesh is not mesh or value.type != placed:
            return None
        value.wait(writing=False)
        shards = value.shards
        for shard in shards:
            if type(shard) is not np.ndarray or not shard.flags.c_contiguous:
                return None
        return cast("Shards", shards)

    return read


def _host_reader(like: AnyArray, ranks: int) -> Reader:
    """Return an array of the host for every rank."""
    shape, dtype = like.shape, like.dtype

    def read(value: object) -> Shards | None:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype is not dtype:
            return None
        return [value] * ranks if value.flags.c_contiguous and value.flags.aligned else None

    return read
