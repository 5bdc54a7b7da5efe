"""Join what the devices of a mesh have by the engine that runs them: the collectives of graphs as those of groups.

The oracle is `runtime/interpret/mesh.py`; folds have its order, so that bits are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Final, cast

import numpy as np

from tessera.core.base.dtypes import DType, u8, u16, u32, u64
from tessera.core.graph.graph import Node
from tessera.core.graph.spec import CHOOSE
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reduction_rules import RankReduction, ReduceOp
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.runtime.dist import collectives
from tessera.runtime.dist.axis_parts import cut, join
from tessera.runtime.dist.collectives import Folder, Group
from tessera.runtime.dist.engine import Buffer, RankEngine
from tessera.runtime.dist.engines import engine_of
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.operands import Operand
from tessera.runtime.memory.owned import DeviceArray

Shape = tuple[int, ...]
_BITS: Final = {each.bytes: each for each in (u8, u16, u32, u64)}


KERNELS: Final = "tessera.ops.collectives"
"""The module of `fold_by_kernel`: loaded when something is folded, as operators stand above graphs."""


def folder() -> Folder:
    """Load the kernels that fold contributions of ranks."""
    found: Folder = import_module(KERNELS).fold_by_kernel
    return found


def run_collective(
    node: Node, engine: RankEngine, groups: Sequence[tuple[int, ...]], parts: Sequence[Buffer],
    outs: Sequence[Buffer],
) -> list[Buffer]:  # fmt: skip
    """Return what every rank has behind a collective, of what each has before it: buffers of one axis.

    outs: places for it in each rank's memory, which may be used or not: see `copy_here`
    """
    if node.attributes["reduction"] == CHOOSE:
        kind = _BITS[node.result.type.dtype.bytes].numpy
        parts, outs = [_as(each, kind) for each in parts], [_as(each, kind) for each in outs]
    found: list[Buffer] = list(outs)
    for ranks in groups:
        joined = _Joined(node, Group(engine, ranks), [parts[rank] for rank in ranks], [outs[rank] for rank in ranks])
        for rank, each in zip(ranks, _KINDS[str(node.attributes["kind"])](joined), strict=True):
            found[rank] = each
    return [_as(each, node.result.type.dtype.numpy) for each in found]


def _as(buffer: Buffer, kind: "np.dtype[np.generic]") -> Buffer:
    """Return the same bits as elements of another type of the same size."""
    if buffer.dtype == kind:
        return buffer
    if isinstance(buffer, DeviceArray):
        return DeviceArray.over(buffer.address, buffer.shape, kind, buffer.device, buffer)
    return buffer.view(kind)


def flat(array: Operand[object]) -> Buffer:
    """Return an array without gaps as a buffer of one axis in the same memory."""
    value = array.value
    if isinstance(value, DeviceArray):
        return value.reshape((array.view.size,))
    return array.view.reshape(-1)


def join_by_engine(node: Node, mesh: Mesh, parts: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """Write what every rank has behind a collective to `outs`: buffers of one axis, as `parts` are."""
    groups = mesh.along(cast("tuple[str, ...]", node.attributes["axes"]))
    for out, value in zip(outs, run_collective(node, engine_of(mesh.devices), groups, parts, outs), strict=True):
        copy_here(out, value)


def copy_here(out: Buffer, value: Buffer) -> None:
    """Put a result in its place, unless it was made there."""
    if not isinstance(out, DeviceArray):
        if out is not value:
            out[...] = value
        return
    if value.address != out.address and out.nbytes:
        api = door.driver()
        with api.inside(out.device):
            api.copy(out.address, value.address, out.nbytes, 0)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Operands and places of one group of ranks."""

    node: Node
    group: Group
    parts: Sequence[Buffer]
    outs: Sequence[Buffer]

    @property
    def dtype(self) -> DType:
        """The type of elements; of the integers that hold their bits, where these are combined."""
        kind = self.node.result.type.dtype
        return _BITS[kind.bytes] if self.node.attributes["reduction"] == CHOOSE else kind

    @property
    def shape(self) -> Shape:
        """The shape of what each rank gives."""
        return self.node.operands[0].type.shape

    @property
    def what(self) -> RankReduction:
        """The reduction."""
        named = self.node.attributes["reduction"]
        return RankReduction(cast("ReduceOp", "or" if named == CHOOSE else named), self.dtype, self.dtype)

    def cut(self, place: int, buffer: Buffer) -> Buffer:
        """Return a buffer of a rank with the parts that are cut one after the other."""
        return cut(self.group, place, buffer, self.shape, cast("int", self.node.attributes["cut"]), self.group.size)

    def joined(self, made: Sequence[Buffer]) -> list[Buffer]:
        """Return buffers of parts as arrays that are joined."""
        shape, axis = self.node.result.type.shape, cast("int", self.node.attributes["join"])
        return [join(self.group, n, each, shape, axis, self.group.size) for n, each in enumerate(made)]


def _all_reduce(it: _Joined) -> list[Buffer]:
    leaves = [[part] for part in it.parts]
    tree = ReductionTree.binary(it.group.size)
    outs = None if it.group.engine.shared_memory else it.outs  # ranks that share memory share a result
    return collectives.all_reduce(it.group, leaves, it.what, tree, folder(), outs)


def _reduce_scatter(it: _Joined) -> list[Buffer]:
    leaves = [[it.cut(rank, part)] for rank, part in enumerate(it.parts)]
    size = prod(it.shape) // it.group.size
    bounds = [slice(place * size, (place + 1) * size) for place in range(it.group.size)]
    tree = ReductionTree.binary(it.group.size)
    return collectives.reduce_scatter(it.group, leaves, it.what, tree, bounds, folder())


def _all_gather(it: _Joined) -> list[Buffer]:
    return it.joined(collectives.all_gather(it.group, it.parts, it.dtype))


def _all_to_all(it: _Joined) -> list[Buffer]:
    packed = [it.cut(place, part) for place, part in enumerate(it.parts)]
    return it.joined(collectives.all_to_all(it.group, packed, it.dtype))


def _slice(it: _Joined) -> list[Buffer]:
    size = prod(it.shape) // it.group.size
    packed = [it.cut(place, part) for place, part in enumerate(it.parts)]
    return [it.group.engine.part(each, n * size, (n + 1) * size) for n, each in enumerate(packed)]


_KINDS: Final[Mapping[str, Callable[[_Joined], list[Buffer]]]] = {
    "all_reduce": _all_reduce, "reduce_scatter": _reduce_scatter, "all_gather": _all_gather,
    "all_to_all": _all_to_all, "slice": _slice,
}  # fmt: skip
