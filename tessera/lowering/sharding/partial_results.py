"""Make a device's part of a reduction whose rows a mesh cuts: masked after the end, and sums as sums of leaves.

before: s[] = reduce sum (x[11@tp])      over 2 devices, 6 rows and 5: in leaves of 2, 1, 2 and 1, and of 2, 1, 2 and 0
after:  w[4, 2] = view x; m[4, 2] = select(holds, w, -0.0); l[4] = reduce sum (m)
        p[] = (l[0] + l[1]) + (l[2] + l[3]); s = all_reduce sum over tp (p)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Number
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.isolated import isolated, label_before
from tessera.core.graph.spec import CHOOSE
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.assign import Assignment
from tessera.lowering.sharding.factors import NodeFactors
from tessera.lowering.sharding.leaves import (
    Block,
    block_rows,
    blocks_of,
    chosen,
    fold_leaves,
    in_blocks,
    is_power_of_two,
    leaf_holds,
    leaf_window,
    may_be_empty,
    most_leaves,
)
from tessera.lowering.sharding.padding import NO_ROW, masked, neutral, place_along, resized, rows_left, within
from tessera.lowering.sharding.placements import Axes


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows that a node reduces, and a mesh cuts.

    kind: of the reduction; rows: of the largest shard; dims: which axis of each operand they are, -1: none
    alone: whether an operand of a contraction lacks them, so that they cannot be masked
    """

    kind: str
    axes: Axes
    parts: int
    extent: int
    rows: int
    dims: tuple[int, ...]
    alone: bool

    @property
    def shards(self) -> tuple[Block, ...]:
        """The rows of each device."""
        ends = [min(number * self.rows, self.extent) for number in range(self.parts + 1)]
        return tuple(pairwise(ends))

    @property
    def even(self) -> bool:
        """True where every device has as many."""
        return self.extent % self.parts == 0


def cut_rows(factors: NodeFactors, assignment: Assignment, mesh: Mesh) -> list[CutRows]:
    """Return the rows that a node reduces, and a mesh cuts."""
    found: list[CutRows] = []
    for number, axes in assignment.axes.items():
        factor = factors.factors[number]
        if factor.reduces and factor.role != CHOOSE:
            dims = [next((n for n, dim in enumerate(each) if number in dim), -1) for each in factors.operands]
            rows = assignment.extents[number]
            found.append(CutRows(factor.role, axes, mesh.size(axes), factor.extent, rows, tuple(dims), factor.even))
    return found


@dataclass(frozen=True, slots=True)
class _Lying:
    """Operands with the rows that a device is to reduce first, and others behind them.

    counts: how many rows each device has; left: how many this one has; None: all that it holds
    """

    operands: list[Value]
    counts: tuple[int, ...]
    left: Value | None


class PartialResults:
    """Makes them.  leaves: of a sum over all devices, a power of two.

    What depends on a device's place alone is made once, and so are rows that several sums have moved.
    """

    def __init__(self, builder: GraphBuilder, leaves: int) -> None:
        self.builder, self.leaves = builder, leaves
        self._made: dict[tuple[object, ...], Value] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def place(self, axes: Axes, parts: int) -> Value:
        """Return a device's place along axes of the mesh."""
        return self._once(("place", axes), lambda: place_along(self.builder, axes, parts))

    def leaves_of(self, node: Node, cuts: Sequence[CutRows]) -> int:
        """Return how many parts of a sum a device makes; 0 where other meshes add in another order."""
        if len(cuts) != 1 or cuts[0].kind != "sum" or node.op not in _STACKS or self.leaves % cuts[0].parts:
            return 0
        (cut,) = cuts
        mine = most_leaves(cut.rows, self.leaves // cut.parts)
        divides = cut.even and cut.rows % mine == 0
        ordered = not cut.alone and node.result.type.dtype.is_float
        return mine if divides or ordered else 0

    def masked(self, node: Node, cuts: Sequence[CutRows], operands: Sequence[Value]) -> list[Value]:
        """Return operands of a node whose part is one result: what is behind the end of a device's rows is neutral."""
        found = list(operands)
        for cut in cuts:
            lying = self._lying(node, cut, found, only=len(cuts) == 1)
            found = lying.operands
            if lying.left is not None:
                holds = self._within(cut.rows, lying.left)
                found = self._chosen(node, cut, found, holds, 1)
        return found

    def present(self, node: Node, cuts: Sequence[CutRows], part: Value) -> Value:
        """Return a device's part of a contraction; -0.0 of no rows, which no sum of the others shows."""
        for cut in cuts:
            lying = self._lying(node, cut, (), only=len(cuts) == 1)
            if 0 in lying.counts and lying.left is not None and node.op == "contract":
                holds = self.builder.reshape(self._within(1, lying.left), ())
                part = masked(self.builder, part, holds, (), neutral("sum", part.type.dtype), node.result.name)
        return part

    def sum_by_leaves(self, node: Node, cut: CutRows, operands: Sequence[Value], leaves: int) -> Value:
        """Return a device's sum: the sums of its leaves, which are stacked along a first axis, added in a tree."""
        return fold_leaves(self.builder, self._stack(node, cut, operands, leaves), leaves)

    def _stack(self, node: Node, cut: CutRows, operands: Sequence[Value], leaves: int) -> Value:
        lying = self._lying(node, cut, operands, only=True)
        split = [self._split(each, dim, leaves) for each, dim in zip(lying.operands, cut.dims, strict=True)]
        holds = None
        if lying.left is not None or cut.rows % leaves:
            key = "leaves", cut.rows, leaves, lying.left
            holds = self._once(key, lambda: leaf_holds(self.builder, cut.rows, leaves, lying.left))
            split = self._chosen(node, cut, split, holds, 2)
        found = _STACKS[node.op](self.builder, node, split, cut.dims)
        if holds is None or node.op != "contract" or not may_be_empty(cut.rows, leaves, lying.counts):
            return found
        first = resized(self.builder, holds, 1, 1)
        full = self.builder.reshape(first, (leaves,))
        return masked(self.builder, found, full, (0,), neutral("sum", found.type.dtype), node.result.name)

    def _lying(self, node: Node, cut: CutRows, operands: Sequence[Value], *, only: bool) -> _Lying:
        """Bring the rows of each device's block there where a sum depends on it; count those that it has.

        only: whether no other rows are reduced
        """
        if cut.even:
            return _Lying(list(operands), (cut.rows,) * cut.parts, None)
        place, shards = self.place(cut.axes, cut.parts), cut.shards
        in_order = only and cut.kind == "sum" and node.op in _STACKS and node.result.type.dtype.is_float
        halves = self.leaves % cut.parts == 0 and is_power_of_two(cut.parts)
        blocks = blocks_of(cut.extent, cut.parts) if in_order and halves else shards
        counts = tuple(end - first for first, end in blocks)
        if blocks == shards:
            key = "left", cut.axes, cut.extent
            left = self._once(key, lambda: rows_left(self.builder, place, cut.rows, cut.extent))
            return _Lying(list(operands), counts, left)
        found = [
            self._in_blocks(each, dim, place, cut, blocks) if dim >= 0 else each
            for each, dim in zip(operands, cut.dims, strict=False)
        ]
        left = self._once(("count", cut.axes, cut.extent), lambda: chosen(self.builder, place, counts))
        return _Lying(found, counts, left)

    def _in_blocks(self, value: Value, dim: int, place: Value, cut: CutRows, blocks: Sequence[Block]) -> Value:
        key = "rows", cut.axes, cut.extent
        numbers = self._once(key, lambda: block_rows(self.builder, place, cut.rows, blocks))
        return self._once(
            (value, dim, cut.axes), lambda: in_blocks(self.builder, value, dim, cut.axes, blocks, numbers)
        )

    def _within(self, rows: int, left: Value) -> Value:
        return self._once(("within", rows, left), lambda: within(self.builder, rows, left))

    def _chosen(self, node: Node, cut: CutRows, operands: Sequence[Value], holds: Value, rank: int) -> list[Value]:
        """Return operands that are neutral where rows do not hold.  rank: of the rows, which are leaves or not."""
        found: list[Value] = []
        for place, (value, dim) in enumerate(zip(operands, cut.dims, strict=True)):
            if dim < 0 or (node.op == "scatter_add" and place):
                found.append(value)  # what is added to no row need not be masked
                continue
            each = self.builder.cast(value, i64) if node.op == "scatter_add" else value
            number = _neutral(node, cut, place, each)
            found.append(masked(self.builder, each, holds, range(dim, dim + rank), number))
        return found

    def _split(self, value: Value, dim: int, leaves: int) -> Value:
        if dim < 0:
            return value
        shape = value.type.shape
        if shape[dim] % leaves == 0:
            return self.builder.reshape(value, (*shape[:dim], leaves, shape[dim] // leaves, *shape[dim + 1 :]))
        return self.builder.view(value, leaf_window(shape, dim, leaves))


def _neutral(node: Node, cut: CutRows, place: int, value: Value) -> Number:
    """Return what an operand has behind the end: of a product -0.0 and 0.0, which make -0.0."""
    if node.op == "scatter_add":
        return NO_ROW
    dtype = value.type.dtype
    if node.op == "contract" and place:
        return 0.0 if dtype.is_float else 0
    return neutral(cut.kind, dtype)


def _stack_of_products(builder: GraphBuilder, node: Node, operands: Sequence[Value], dims: Sequence[int]) -> Value:
    sides = labels_of(node.attributes["labels"])
    leaf = 1 + max(label for labels in sides for label in labels)
    split = [
        (*labels[:dim], leaf, *labels[dim:]) if dim >= 0 else labels for labels, dim in zip(sides, dims, strict=True)
    ]
    before = label_before(node.attributes, [operand.type.shape for operand in operands], dims)
    attributes = {
        **isolated(node.attributes, before),
        "labels": tuple(split),
        "result": (leaf, *numbers(node.attributes["result"])),
    }
    return builder.add("contract", operands, None, node.result.name, **attributes)


def _stack_of_sums(builder: GraphBuilder, node: Node, operands: Sequence[Value], dims: Sequence[int]) -> Value:
    (operand,), (dim,) = operands, dims
    rank = len(operand.type.shape)
    first = builder.transpose(operand, (dim, *(axis for axis in range(rank) if axis != dim)))
    axes = [axis + 1 for axis in numbers(node.attributes["axes"])]
    return builder.add("reduce", [first], None, node.result.name, **isolated({"axes": tuple(axes), "kind": "sum"}))


_STACKS: Final = {"contract": _stack_of_products, "reduce": _stack_of_sums}
"""What makes stacks of leaves, by what makes a sum."""
