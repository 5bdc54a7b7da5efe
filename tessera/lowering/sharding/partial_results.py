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
from tessera.core.graph.expr import Argument, Literal, Number, apply
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
from tessera.lowering.sharding.steps import ALL_REDUCE


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
    """Return the rows that a node reduces, and a mesh cuts, by their axes in its operands."""
    found: list[CutRows] = []
    for number, axes in assignment.axes.items():
        factor = factors.factors[number]
        if factor.reduces and factor.role != CHOOSE:
            dims = [next((n for n, dim in enumerate(each) if number in dim), -1) for each in factors.operands]
            rows = assignment.extents[number]
            found.append(CutRows(factor.role, axes, mesh.size(axes), factor.extent, rows, tuple(dims), factor.even))
    return sorted(found, key=lambda cut: cut.dims)


def leaves_of(node: Node, cuts: Sequence[CutRows], most: int) -> tuple[int, ...]:
    """Return how many parts of a sum a device makes along each axis; none where other meshes add in another order.

    most: of a sum along one axis over all devices, a power of two
    Of products of two axes that are cut a device makes one part: whole stacks of leaves would have to be sent.
    """
    if node.op not in _SUMS or (len(cuts) > 1 and not (node.op == "reduce" and node.result.type.dtype.is_float)):
        return ()
    leaves = tuple(_leaves_along(node, cut, most) for cut in cuts)
    return leaves if all(leaves) else ()


def _leaves_along(node: Node, cut: CutRows, most: int) -> int:
    if cut.kind != "sum" or most % cut.parts:
        return 0
    leaves = most_leaves(cut.rows, most // cut.parts)
    divides = cut.even and cut.rows % leaves == 0
    ordered = not cut.alone and node.result.type.dtype.is_float
    return leaves if divides or ordered else 0


@dataclass(frozen=True, slots=True)
class _Lying:
    """Operands with the rows that a device is to reduce first, and others behind them.

    counts: how many rows each device has; left: how many this one has; None: all that it holds
    """

    operands: list[Value]
    counts: tuple[int, ...]
    left: Value | None


@dataclass(frozen=True, slots=True)
class _Leaves:
    """Operands whose rows are split into leaves.

    holds: for each row of each leaf whether it is one; None: all are; counts: how many rows each device has
    """

    operands: list[Value]
    holds: Value | None
    counts: tuple[int, ...]


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

    def sum_by_leaves(
        self, node: Node, cuts: Sequence[CutRows], operands: Sequence[Value], leaves: Sequence[int]
    ) -> Value:
        """Return a device's sum: the sums of its leaves, which are stacked along first axes, added in a tree.

        Of two axes the last is added first, over all devices: which devices cut the other does not change its sums.
        """
        part = self._stack(node, cuts, operands, leaves)
        for cut, count in zip(cuts[:0:-1], leaves[:0:-1], strict=True):
            part = self._over_all_devices(fold_leaves(self.builder, part, count), cut)
        part = fold_leaves(self.builder, part, leaves[0])
        for cut in cuts[1:]:
            part = self._on_first_device(part, cut)
        return part

    def _over_all_devices(self, part: Value, cut: CutRows) -> Value:
        return self.builder.add(
            "collective", [part], None, part.name, kind=ALL_REDUCE, axes=cut.axes, parts=cut.parts, reduction="sum"
        )  # fmt: skip

    def _on_first_device(self, part: Value, cut: CutRows) -> Value:
        """Return a sum of all devices on the first of them, and -0.0 on the others, so that it is a sum of parts."""
        is_first = apply("cmp", Argument(0, i64), Literal(0, i64), predicate="eq")
        holds = self._once(
            ("first", cut.axes), lambda: self.builder.elementwise(is_first, [self.place(cut.axes, cut.parts)])
        )
        return masked(self.builder, part, holds, (), neutral("sum", part.type.dtype))

    def _stack(
        self, node: Node, cuts: Sequence[CutRows], operands: Sequence[Value], leaves: Sequence[int]
    ) -> Value:  # fmt: skip
        if node.op == "contract":
            return self._stack_of_products(node, cuts[0], operands, leaves[0])
        (operand,) = operands
        for cut, count in zip(reversed(cuts), reversed(leaves), strict=True):  # the last first: axes before it stay
            (operand,) = self._in_leaves(node, cut, [operand], count).operands
        return _stack_of_sums(self.builder, node, operand, [cut.dims[0] for cut in cuts])

    def _stack_of_products(self, node: Node, cut: CutRows, operands: Sequence[Value], leaves: int) -> Value:
        split = self._in_leaves(node, cut, operands, leaves)
        stack = _stack_of_products(self.builder, node, split.operands, cut.dims)
        if split.holds is None or not may_be_empty(cut.rows, leaves, split.counts):
            return stack
        full = self.builder.reshape(resized(self.builder, split.holds, 1, 1), (leaves,))
        return masked(self.builder, stack, full, (0,), neutral("sum", stack.type.dtype), node.result.name)

    def _in_leaves(self, node: Node, cut: CutRows, operands: Sequence[Value], leaves: int) -> _Leaves:
        """Split the rows of operands into leaves; what is no row of a leaf is neutral."""
        lying = self._lying(node, cut, operands, only=True)
        split = [self._split(each, dim, leaves) for each, dim in zip(lying.operands, cut.dims, strict=True)]
        if lying.left is None and cut.rows % leaves == 0:
            return _Leaves(split, None, lying.counts)
        if lying.left is not None and leaves == 1:
            holds = self.builder.reshape(self._within(cut.rows, lying.left), (1, cut.rows))
            return _Leaves(self._chosen(node, cut, split, holds, 2), holds, lying.counts)
        key = "leaves", cut.rows, leaves, lying.left
        holds = self._once(key, lambda: leaf_holds(self.builder, cut.rows, leaves, lying.left))
        return _Leaves(self._chosen(node, cut, split, holds, 2), holds, lying.counts)

    def _lying(self, node: Node, cut: CutRows, operands: Sequence[Value], *, only: bool) -> _Lying:
        """Bring the rows of each device's block there where a sum depends on it; count those that it has.

        only: whether no other rows are reduced
        """
        if cut.even:
            return _Lying(list(operands), (cut.rows,) * cut.parts, None)
        place, shards = self.place(cut.axes, cut.parts), cut.shards
        in_order = only and cut.kind == "sum" and node.op in _SUMS and node.result.type.dtype.is_float
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


def _stack_of_sums(builder: GraphBuilder, node: Node, operand: Value, dims: Sequence[int]) -> Value:
    """Sum a value whose axes `dims`, before they were split, are leaves and rows; the leaves of the last come first."""
    leaf_axes = [dim + number for number, dim in enumerate(dims)]
    others = [axis for axis in range(len(operand.type.shape)) if axis not in leaf_axes]
    first = builder.transpose(operand, (*reversed(leaf_axes), *others))
    axes = [axis + len(dims) for axis in numbers(node.attributes["axes"])]
    return builder.add("reduce", [first], None, node.result.name, **isolated({"axes": tuple(axes), "kind": "sum"}))


_SUMS: Final = ("contract", "reduce")
"""What is summed by leaves."""
