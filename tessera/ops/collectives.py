"""Collectives on what the ranks of a mesh hold: `all_reduce` and its kin, deterministic by default.

    grads = op.all_reduce(local_grads, op="sum", axis="dp", mesh=mesh)

Values come as a list, one a rank in the order of the mesh's devices, and go as one.  A reduction folds leaves in the
order of a tree that depends on their number alone: the same bits for every number of ranks and on every target.
"""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from tessera.core.base.dtypes import DType, f32
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadIndexLaunch, CannotTrace, RankMismatch, ReplicasDiffer
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.reduction_rules import RankReduction, reduction
from tessera.core.placement.reduction_trees import Fold, ReductionTree
from tessera.graphs.tracer import Tracer
from tessera.ops.captured_collectives import captured_collective
from tessera.ops.rank_values import (
    RankValues,
    Values,
    as_array,
    axis_number,
    elements_of,
    gathered_array,
    rank_buffer,
    read_values,
    reduced_array,
    reduced_axes,
)
from tessera.ops.tiles.folds import fold_kernel
from tessera.runtime.dist import collectives
from tessera.runtime.dist.collectives import Folder, Group, fold_with_numpy, is_exact_sum
from tessera.runtime.dist.engine import Buffer
from tessera.runtime.dist.simulated import SimulatedEngine
from tessera.runtime.memory.operands import result_dtype
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.shards.point_threads import current_point
from tessera.runtime.streams.graph_capture import recording

P = ParamSpec("P")
R = TypeVar("R")
Results: TypeAlias = Any  # arrays of any library, in what the caller gave
"""A list of arrays by rank, or an array on a mesh where one was given."""
Axes = str | Iterable[str] | None
"""A mesh axis, several that count as one, or None: all of them."""


def fold_by_kernel(
    parts: Sequence[Buffer], fold: Fold, what: RankReduction, root_of: int | None, outs: Sequence[Buffer],
    stream: object,
) -> None:  # fmt: skip
    """Fold by a kernel of the order; exact sums by NumPy."""
    if is_exact_sum(what):
        _add_exactly(parts, fold, what, root_of, outs)
        return
    kernel = fold_kernel(fold, what, root_of, len(outs))
    if stream is None:
        kernel(*parts, *outs)
    else:
        kernel.on(stream)(*parts, *outs)


def _add_exactly(
    parts: Sequence[Buffer], fold: Fold, what: RankReduction, root_of: int | None, outs: Sequence[Buffer]
) -> None:  # fmt: skip
    """Add exactly, on the host whatever the parts lie on."""
    if not isinstance(outs[0], DeviceArray):
        fold_with_numpy(parts, fold, what, root_of, outs, None)
        return
    result = np.empty(outs[0].shape, outs[0].dtype)
    fold_with_numpy([part.get() for part in parts], fold, what, root_of, (result,), None)
    for out in outs:
        out.set(result)


def _folder(group: Group) -> Folder:
    """Return what folds: simulated ranks hold little, and need no kernels."""
    return fold_with_numpy if isinstance(group.engine, SimulatedEngine) else fold_by_kernel


def _promise(det: str | None, *, deterministic: bool) -> str:
    return det if det is not None else "leaf" if deterministic else "fast"


def at_the_call(function: Callable[P, R]) -> Callable[P, R]:
    """Let mistakes of a function point at the line that calls it, and let captures hold it."""

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            if current_point():
                what = f"a point has no values of other points: op.{function.__name__} in {current_point()}"
                hint = "add to a parameter annotated Region[reduce_sum], or call it on the tensor after the launch"
                raise BadIndexLaunch(what, hint=hint)
            _refuse_traced(function.__name__, arguments[0] if arguments else None)
            noted = recording()
            if noted is None:
                return function(*arguments, **keywords)
            return captured_collective(noted, function.__name__, lambda: function(*arguments, **keywords))
        except TesseraError as mistake:
            raise at_call(mistake) from None

    return checked


def _refuse_traced(name: str, x: object) -> None:
    """Raise CannotTrace for a value of a graph, which has no part for each rank, whichever branch it is in."""
    values = cast("Sequence[object]", x) if isinstance(x, list | tuple) else (x,)
    traced = next((value for value in values if isinstance(value, Tracer)), None)
    if traced is not None:
        what = f"op.{name} exchanges values between ranks, and {traced} is one value of a function that is captured"
        hint = (
            "call it on what the function returns; inside of it, operators on tensors of a mesh add the collectives "
            "that they need, such as op.sum over a dimension that is cut"
        )
        raise CannotTrace(what, hint=hint)


@at_the_call
def all_reduce(
    x: Values, op: str = "sum", axis: Axes = None, *, mesh: Mesh | None = None,
    algo: Sequence[int] | str = "binary_tree", deterministic: bool = True, det: str | None = None,
    leaves: int | None = None,
) -> Results:  # fmt: skip
    """Return what every rank gets: the fold of all ranks' values along a mesh axis.

    op: "sum", "mean", "prod", "min", "max", of integers and bool also "and", "or", "xor"
    axis: the mesh axes along which ranks are reduced, several as one; None: all
    algo: the tree: "binary_tree", "chain", or a radix a level, outermost first
    det: "fast", "run", "leaf" or "exact", see docs/collectives.md; None: "leaf", or "fast" if not `deterministic`
    leaves: how many leaves all ranks of a group have together, counted by the first axis of each value, or as lists;
        None: each value is one leaf

    An array on a mesh gives an array on it: its partial sums are reduced, or else its shards.
    Raises BadReduction, BadReductionTree, RankMismatch, BadMesh.
    """
    axis = reduced_axes(x, axis) if isinstance(x, MeshArray) else axis
    values = read_values(x, mesh, axis, leaves=leaves)
    what = reduction(op, values.dtype, _promise(det, deterministic=deterministic))
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        mine = [_leaves(values, rank) for rank in group.ranks]
        found = collectives.all_reduce(group, mine, what, _tree(mine, leaves, algo), _folder(group))
        _give(results, group, found, lambda whole: as_array(whole, values.shape, values.first))
    return reduced_array(x, values, axis, results) if isinstance(x, MeshArray) else results


@at_the_call
def reduce_scatter(
    x: Values, op: str = "sum", axis: Axes = None, *, dim: int = -1, mesh: Mesh | None = None,
    algo: Sequence[int] | str = "binary_tree", det: str = "leaf", leaves: int | None = None,
) -> list[Buffer]:  # fmt: skip
    """Return to each rank its part, along the axis `dim`, of the fold of all ranks' values; see `all_reduce`.

    Raises RankMismatch where the extent of `dim` is no multiple of the number of ranks.
    """
    values = read_values(x, mesh, axis, leaves=leaves)
    what = reduction(op, values.dtype, det)
    number = axis_number(dim, values.shape)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        each, rest = divmod(values.shape[number], group.size)
        if rest:
            message = f"axis {dim} has {values.shape[number]} elements, no multiple of {group.size} ranks"
            raise RankMismatch(message, hint="pad it")
        shape = tuple(each if place == number else extent for place, extent in enumerate(values.shape))
        mine = [_leaves(values, rank, number) for rank in group.ranks]
        size = elements_of(shape)
        bounds = [slice(place * size, (place + 1) * size) for place in range(group.size)]
        found = collectives.reduce_scatter(group, mine, what, _tree(mine, leaves, algo), bounds, _folder(group))
        _give(results, group, found, lambda part, shape=shape: as_array(part, shape, values.first, number))
    return results


@at_the_call
def all_gather(x: Values, axis: Axes = None, *, dim: int = -1, mesh: Mesh | None = None) -> Results:
    """Return to every rank the values of all ranks along a mesh axis, one after the other along the axis `dim`.

    An array on a mesh gives an array on it: dimensions that the axis cuts are put together, whichever they are.
    Raises RankMismatch for values that differ in more than the extent of `dim`, BadMesh.
    """
    if isinstance(x, MeshArray):
        return gathered_array(x, axis)
    values = read_values(x, mesh, axis, alike=False)
    number = axis_number(dim, values.shape)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        mine = [values.leaves[rank][0] for rank in group.ranks]
        outer = {(*leaf.shape[:number], *leaf.shape[number + 1 :]) for leaf in mine}
        if len(outer) > 1:
            message = f"values of {len(outer)} shapes cannot be put together along axis {dim}"
            raise RankMismatch(message, hint="all other extents must be equal")
        shape = (*mine[0].shape[:number], sum(leaf.shape[number] for leaf in mine), *mine[0].shape[number + 1 :])
        found = collectives.all_gather(
            group, [rank_buffer(values, rank, 0, number) for rank in group.ranks], values.dtype
        )
        _give(results, group, found, lambda whole, shape=shape: as_array(whole, shape, values.first, number))
    return results


@at_the_call
def all_to_all(x: Values, axis: Axes = None, *, mesh: Mesh | None = None) -> list[Buffer]:
    """Give each rank the pieces at its position of all ranks: `x[s][t]` becomes `result[t][s]`.

    The first axis of each value counts pieces, one a rank of the group.  Raises RankMismatch.
    """
    values = read_values(x, mesh, axis)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        if not values.shape or values.shape[0] != group.size:
            extent = values.shape[0] if values.shape else "no"
            message = f"values have {extent} pieces along their first axis for {group.size} ranks"
            raise RankMismatch(message, hint="give a piece a rank")
        found = collectives.all_to_all(group, [rank_buffer(values, rank) for rank in group.ranks], values.dtype)
        _give(results, group, found, lambda whole: as_array(whole, values.shape, values.first))
    return results


@at_the_call
def broadcast(x: Values, root: int = 0, axis: Axes = None, *, mesh: Mesh | None = None) -> list[Buffer]:
    """Return to every rank the value of the one at position `root` of its group.  Raises RankMismatch."""
    values = read_values(x, mesh, axis)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        if not 0 <= root < group.size:
            raise RankMismatch(f"there is no rank {root}", hint=f"there are ranks 0 to {group.size - 1}")
        found = collectives.broadcast(group, rank_buffer(values, group.ranks[root]), root)
        _give(results, group, found, lambda whole: as_array(whole, values.shape, values.first))
    return results


@at_the_call
def permute(
    x: Values, pairs: Sequence[tuple[int, int]], axis: Axes = None, *, mesh: Mesh | None = None
) -> list[Buffer]:  # fmt: skip
    """Send values along pairs (source, target) of positions in each group; who is sent nothing gets zeros.

    Raises RankMismatch for a position that there is not, and for a target that is named twice.
    """
    values = read_values(x, mesh, axis)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        sent = collectives.permute(group, [rank_buffer(values, rank) for rank in group.ranks], pairs)
        found = [_zeros(group, place, values) if each is None else each for place, each in enumerate(sent)]
        _give(results, group, found, lambda whole: as_array(whole, values.shape, values.first))
    return results


@at_the_call
def send_recv(x: Values, source: int, target: int, axis: Axes = None, *, mesh: Mesh | None = None) -> list[Buffer]:
    """Send the value of one position to another: what `target` had is replaced, all others keep theirs."""
    values = read_values(x, mesh, axis)
    results: list[Buffer] = [None] * values.mesh.size()
    for group in values.groups:
        mine = [rank_buffer(values, rank) for rank in group.ranks]
        sent = collectives.permute(group, mine, [(source, target)])
        found = [own if each is None else each for own, each in zip(mine, sent, strict=True)]
        _give(results, group, found, lambda whole: as_array(whole, values.shape, values.first))
    return results


@at_the_call
def tree_id(
    op: str, dtype: DType | str, leaves: int, *, algo: Sequence[int] | str = "binary_tree", det: str = "leaf"
) -> str:  # fmt: skip
    """Return what names the bits of a reduction: store it with results and checkpoints.

    Raises BadReduction, BadReductionTree, ArgumentType.
    """
    return reduction(op, result_dtype(dtype, f32), det).tree_id(ReductionTree.of(leaves, algo))


@at_the_call
def check_replicas(x: Values, axis: Axes = None, *, mesh: Mesh | None = None) -> list[str]:
    """Return a hash of each rank's value, and raise ReplicasDiffer where ranks along a mesh axis differ in a bit."""
    values = read_values(x, mesh, axis)
    hashes = [hashlib.sha256(_on_host(values, rank).tobytes()).hexdigest()[:16] for rank in range(values.mesh.size())]
    for group in values.groups:
        found = Counter(hashes[rank] for rank in group.ranks)
        if len(found) > 1:
            usual = found.most_common(1)[0][0]
            odd = [rank for rank in group.ranks if hashes[rank] != usual]
            same = next(rank for rank in group.ranks if hashes[rank] == usual)
            where = _first_difference(_on_host(values, odd[0]), _on_host(values, same))
            names = ", ".join(map(str, odd))
            message = f"{'rank' if len(odd) == 1 else 'ranks'} {names} of {list(group.ranks)}, first at element {where}"
            raise ReplicasDiffer(message, hint='a collective with det="leaf" gives all ranks the same bits')
    return hashes


def _on_host(values: RankValues, rank: int) -> Buffer:
    found = rank_buffer(values, rank)
    return found.get() if isinstance(found, DeviceArray) else found


def _first_difference(a: Buffer, b: Buffer) -> int:
    """Return the number of the first element that differs in a bit."""
    size = a.dtype.itemsize
    differs = (a.view(np.uint8) != b.view(np.uint8)).reshape(-1, size).any(axis=1)
    return int(np.argmax(differs))


def _leaves(values: RankValues, rank: int, dim: int | None = None) -> list[Buffer]:
    """Return the leaves of a rank."""
    return [rank_buffer(values, rank, number, dim) for number in range(len(values.leaves[rank]))]


def _zeros(group: Group, place: int, values: RankValues) -> Buffer:
    """Return zeros in the memory of the rank at a position."""
    made = group.empty(place, elements_of(values.shape), values.dtype)
    if isinstance(made, DeviceArray):
        made.set(np.zeros(made.shape, made.dtype))
    else:
        made[...] = 0
    return made


def _tree(mine: Sequence[Sequence[Buffer]], leaves: int | None, algo: Sequence[int] | str) -> ReductionTree:
    """Return the tree of a group's leaves.  Raises RankMismatch where there are not as many as were announced."""
    count = sum(len(each) for each in mine)
    if leaves is not None and count != leaves:
        raise RankMismatch(f"the ranks of a group hold {count} leaves, not {leaves}", hint="deal all leaves")
    return ReductionTree.of(count, algo)


def _give(results: list[Buffer], group: Group, found: Sequence[Buffer], how: Callable[[Buffer], object]) -> None:
    """Put each rank's result where it belongs; ranks that share a buffer share the array."""
    made: dict[int, object] = {}
    for rank, value in zip(group.ranks, found, strict=True):
        if id(value) not in made:
            made[id(value)] = how(value)
        results[rank] = made[id(value)]
