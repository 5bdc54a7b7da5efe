"""Run the graph of one device on every device of a mesh, node by node together: the oracle of graphs on meshes."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

import numpy as np

from tessera.core.graph.bodies import BRANCH, LOOP, WHILE, parts, steps
from tessera.core.graph.graph import Graph, Node, Tensor
from tessera.core.graph.spec import CHOOSE
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reduction_rules import RankReduction, ReduceOp
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.runtime.interpret.graph import evaluate_node
from tessera.runtime.interpret.rounding import Numbers

Dims = Sequence[Sequence[str]]


def evaluate_on_mesh(graph: Graph, mesh: Mesh, inputs: Sequence[Sequence[Numbers]]) -> list[tuple[Numbers, ...]]:
    """Return the outputs of each device, of `inputs` for each device."""
    values = [dict(zip(graph.inputs, mine, strict=True)) for mine in inputs]
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            operands = [[mine[operand] for operand in node.operands] for mine in values]
            if node.op == "collective":
                results = [(each,) for each in evaluate_collective(node, mesh, [one for (one,) in operands])]
            elif node.op in _WITH_BODIES:
                results = _WITH_BODIES[node.op](node, mesh, operands)
            else:
                results = [evaluate_node(node, each) for each in operands]
            for mine, made in zip(values, results, strict=True):
                mine.update(zip(node.results, made, strict=True))
    return [tuple(mine[value] for value in graph.outputs) for mine in values]


def evaluate_collective(node: Node, mesh: Mesh, held: Sequence[Numbers]) -> list[Numbers]:
    """Return what each device has behind a collective, of what each has before it."""
    tensor = node.result.type
    results = [np.empty(tensor.shape, tensor.dtype.numpy) for _ in held]
    join_into(node, mesh, held, results)
    return results


def join_into(node: Node, mesh: Mesh, held: Sequence[Numbers], results: Sequence[Numbers]) -> None:
    """Write what each device has behind a collective to the arrays in `results`, which share no memory with `held`."""
    axes = cast("tuple[str, ...]", node.attributes["axes"])
    join = _KINDS[str(node.attributes["kind"])]
    for group in mesh.along(axes):
        for rank, each in zip(group, join(node, [held[rank] for rank in group]), strict=True):
            results[rank][...] = each


def _folded(node: Node, parts: Sequence[Numbers]) -> Numbers:
    """Return the fold of all parts in a binary tree, lower ones on the left, as `op.all_reduce` folds them."""
    if node.attributes["reduction"] == CHOOSE:
        return _chosen(parts)
    dtype = node.result.type.dtype
    reduction = RankReduction(cast("ReduceOp", node.attributes["reduction"]), dtype, dtype)
    return reduce_leaves(parts, _binary_tree(len(parts)), reduction)


@lru_cache(maxsize=64)
def _binary_tree(leaves: int) -> ReductionTree:
    return ReductionTree.binary(leaves)


def _chosen(parts: Sequence[Numbers]) -> Numbers:
    """Return what one device has and others have zeros for, bit by bit: -0 and NaNs stay what they are."""
    found = parts[0].view(f"u{parts[0].itemsize}").copy()
    for each in parts[1:]:
        found |= each.view(found.dtype)
    return found.view(parts[0].dtype)


def _cut(node: Node, whole: Numbers, parts: int) -> list[Numbers]:
    return np.split(whole, parts, axis=cast("int", node.attributes["cut"]))


def _join(node: Node, parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate(parts, axis=cast("int", node.attributes["join"]))


_KINDS: Final[Mapping[str, Callable[[Node, Sequence[Numbers]], Sequence[Numbers]]]] = {
    "all_reduce": lambda node, parts: [_folded(node, parts)] * len(parts),
    "reduce_scatter": lambda node, parts: _cut(node, _folded(node, parts), len(parts)),
    "all_gather": lambda node, parts: [_join(node, parts)] * len(parts),
    "all_to_all": lambda node, parts: [
        _join(node, each) for each in zip(*(_cut(node, part, len(parts)) for part in parts), strict=True)
    ],
    "slice": lambda node, parts: [_cut(node, part, len(parts))[n] for n, part in enumerate(parts)],
}  # fmt: skip


Parted = Sequence[Sequence[Numbers]]
"""For each device its operands or results."""


def _loop(node: Node, mesh: Mesh, operands: Parted) -> list[tuple[Numbers, ...]]:
    (body,) = node.graphs
    given = [parts(node, mine) for mine in operands]
    carries, count = [each.carries for each in given], len(given[0].carries)
    stacks = [[np.empty(v.type.shape, v.type.dtype.numpy) for v in node.results[count:]] for _ in operands]
    for step in steps(node):
        slices = [tuple(np.asarray(each[step]) for each in mine.stacked) for mine in given]
        inputs = [(*a.constants, *b, *c) for a, b, c in zip(given, carries, slices, strict=True)]
        made = evaluate_on_mesh(body, mesh, inputs)
        carries = [each[:count] for each in made]
        for mine, each in zip(stacks, made, strict=True):
            for stack, found in zip(mine, each[count:], strict=True):
                stack[step] = found
    return [(*mine, *stack) for mine, stack in zip(carries, stacks, strict=True)]


def _while(node: Node, mesh: Mesh, operands: Parted) -> list[tuple[Numbers, ...]]:
    condition, body = node.graphs
    given = [parts(node, mine) for mine in operands]
    carries = [each.carries for each in given]

    def inputs() -> list[tuple[Numbers, ...]]:
        return [(*mine.constants, *each) for mine, each in zip(given, carries, strict=True)]

    while _agreed(node, [flag for (flag,) in evaluate_on_mesh(condition, mesh, inputs())]):
        carries = evaluate_on_mesh(body, mesh, inputs())
    return carries


def _branch(node: Node, mesh: Mesh, operands: Parted) -> list[tuple[Numbers, ...]]:
    holds, fails = node.graphs
    chosen = holds if _agreed(node, [mine[0] for mine in operands]) else fails
    return evaluate_on_mesh(chosen, mesh, [mine[1:] for mine in operands])


def _agreed(node: Node, flags: Sequence[Numbers]) -> bool:
    """Return what all devices decide: they have the same bits."""
    found = {bool(flag) for flag in flags}
    assert len(found) == 1, f"the devices disagree on {node.op}"
    return found.pop()


_WITH_BODIES: Final[Mapping[str, Callable[[Node, Mesh, Parted], list[tuple[Numbers, ...]]]]] = {
    LOOP: _loop, WHILE: _while, BRANCH: _branch,
}  # fmt: skip


def part_of(array: Numbers, dims: Dims, mesh: Mesh, rank: int) -> Numbers:
    """Return a device's part of an array that is cut along axes of the mesh; the last parts may be shorter."""
    return np.array(array[_places(array.shape, dims, mesh, rank)], order="C")


def padded_part_of(array: Numbers, dims: Dims, mesh: Mesh, rank: int, fill: object) -> Numbers:
    """Return a device's part with the extents of the largest one; behind its end it is filled."""
    shape = tuple(-(-size // mesh.size(names)) for size, names in zip(array.shape, dims, strict=True))
    found, part = np.full(shape, fill, array.dtype), part_of(array, dims, mesh, rank)
    found[tuple(map(slice, part.shape))] = part
    return found


def whole_of(parts: Sequence[Numbers], type_: Tensor, dims: Dims, mesh: Mesh) -> Numbers:
    """Return the array that devices have parts of, padded or not; a place is taken from the first one that has it."""
    whole = np.empty(type_.shape, type_.dtype.numpy)
    for rank in reversed(range(mesh.size())):
        places = _places(type_.shape, dims, mesh, rank)
        whole[places] = parts[rank][tuple(slice(each.stop - each.start) for each in places)]
    return whole


def _places(shape: Sequence[int], dims: Dims, mesh: Mesh, rank: int) -> tuple[slice, ...]:
    """Return where a device's part lies in the whole."""
    found: list[slice] = []
    for size, names in zip(shape, dims, strict=True):
        rows = -(-size // mesh.size(names))
        first = min(mesh.position(rank, names) * rows, size)
        found.append(slice(first, min(first + rows, size)))
    return tuple(found)
