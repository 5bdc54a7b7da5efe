"""Tiles of a cascade's loop: atoms, expressions of them, and the products inside of the loop and into its sums.

before: s = contract(q, k) [i, j] in a loop over blocks of i, for rows of j
after:  s = dot(k, q.T): rows first, then the loop's axis, so that weights are the left operands of what is summed
"""

from collections.abc import Sequence

from tessera.core.base.dtypes import DType, i64
from tessera.core.graph.expr import Argument, Expr, Literal, apply, arguments
from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Value
from tessera.core.schedule.cascade import Cascade, Moment
from tessera.core.schedule.plan import Access, CascadeLoop, Group
from tessera.lowering.schedule.emit.blocks import BlockEmitter
from tessera.lowering.schedule.emit.index_floats import convert_first
from tessera.lowering.schedule.emit.tiles import Arrays, Held, Tiles


class CascadeTiles(BlockEmitter):
    """Emits what one block of the loop is made of.

    rows: the axes of a block of rows; columns: those that only some sums have; order: of the axes of tiles
    ragged: whether blocks end behind the loop's axis; followed: atoms that may have elements there
    """

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays, tiles: Tiles) -> None:
        super().__init__(builder, group, arrays, tiles)
        assert group.loop is not None
        self.loop: CascadeLoop = group.loop
        self.cascade: Cascade = group.loop.cascade
        self.cut = False
        results = set(self.loop.columns)
        first = group.axes[self.loop.reductions[0].result]
        self.rows = tuple(axis for axis in tiles.visible(first) if axis not in results)
        self.columns = tiles.visible(self.loop.columns)
        self.order = (*self.rows, *tiles.visible((self.loop.axis,)), *self.columns)
        block = tiles.blocks.get(self.loop.axis, 1)
        self.ragged = group.extents[self.loop.axis] % block != 0
        self.followed = {
            atom for n, atom in enumerate(self.loop.atoms) if self.ragged and n not in self.loop.ended
        }  # fmt: skip
        indices = [(n, group.axes[atom]) for n, atom in enumerate(self.loop.atoms) if self._is_index(atom)]
        self.index_ranges = {number: (0, group.extents[axis] - 1) for number, (axis,) in indices}

    def _is_index(self, value: Tensor) -> bool:
        maker = self.makers.get(value)
        return maker is not None and maker.op == "iota"

    def _inner(self) -> list[Node]:
        return [node for node in self.group.members if node.op == "contract" and node not in self.loop.reductions]

    def _axes(self, moment: Moment) -> tuple[int, ...]:
        """Return the axes of a moment: rows, and columns where a part of it has them."""
        used = {axis for number in arguments(moment.payload) for axis in self.group.axes[self.loop.atoms[number]]}
        return (*self.rows, *(axis for axis in self.columns if axis in used))

    def _load(self, value: Tensor) -> Held:
        """Load a block; the same one of an array that is seen along another axis is not loaded again."""
        for other, held in self.held.items():
            if other in self.group.loads and self.arrays.read[other] is self.arrays.read[value]:
                axes = self._renamed(self.group.loads[other], self.group.loads[value])
                if axes is not None:
                    return Held(held.value, tuple(axes[axis] for axis in held.axes))
        held = super()._load(value)
        if self.loop.axis not in held.axes:
            return held
        if (
            value in self.followed
        ):  # the array goes on behind the part that is read, and 0 times what is there may be NaN
            zero = 0.0 if value.type.dtype.is_float else 0
            return self._inside_or(self.tiles.filled(held), zero, held.axes)
        return self.tiles.filled(held) if self.cut else held

    def _inside_or(self, held: Held, number: float, order: Sequence[int]) -> Held:
        """Return a tile with a number behind the end of the loop's axis."""
        axis, dtype, build = self.loop.axis, held.value.type.dtype, self.builder
        place = Held(build.arange(self.tiles.index[axis], self.tiles.blocks[axis]), (axis,))
        inside = apply("cmp", Argument(1, i64), Argument(2, i64), predicate="lt")
        chosen = apply("select", inside, Argument(0, dtype), Literal(number, dtype))
        return self.tiles.expression(chosen, [held, place, Held(build.index(self.group.extents[axis]))], order)

    def _renamed(self, one: Access, other: Access) -> dict[int, int] | None:
        """Return which axes of one access are which of another one that reads the same box; None where it does not.

        Axes that a block has whole may be different ones.
        """
        whole = {*self.loop.inner, *self.loop.columns}
        found: dict[int, int] = {}
        for a, b in zip(one.index, other.index, strict=True):
            mine, theirs = a.axis, b.axis
            if a == b:
                found |= {term.axis: term.axis for term in a.terms}
            elif mine in whole and theirs in whole and self.group.extents[mine] == self.group.extents[theirs]:
                found[mine] = theirs
            else:
                return None
        return found if one.shape == other.shape and one.padded == other.padded else None

    def _product(self, weight: Held, wide: Expr, total: Value, columns: Sequence[int]) -> Value:
        """Return `total` plus the product of the weights, in the type of the other operand, and that operand.

        An operand that is one number along the loop or along columns, as broadcast ones are, is repeated.
        """
        build, tiles, axis = self.builder, self.tiles, self.loop.axis
        inner = tiles.visible((axis,))
        number = wide.number if isinstance(wide, Argument) else None
        right = self.value(self.loop.atoms[number]) if number is not None else self._expression(wide)
        dtype = right.value.type.dtype
        m = tiles.shape(self.rows)[0] if self.rows else 1
        k = tiles.shape(inner)[0] if inner else 1
        n = tiles.shape(columns)[0] if columns else 1
        a = build.cast(build.reshape(tiles.align(weight, (*self.rows, *inner)), (m, k)), dtype)
        b = build.reshape(tiles.align(right, (*inner, *columns)), (k, n))
        made = build.dot(a, b, build.reshape(total, (m, n)), total.type.dtype)
        return build.reshape(made, tiles.shape((*self.rows, *columns)))

    def _compute(self, node: Node) -> Held:
        if node.op != "contract":
            return super()._compute(node)
        build, tiles = self.builder, self.tiles
        rows, columns = self._sides(node)
        left, right = (self.value(operand) for operand in node.operands)
        if self.loop.axis in rows and set(columns) & set(self.rows):
            left, right, rows, columns = right, left, columns, rows
        # An operand that is one number along an axis, as broadcast ones are, is repeated: each element counts.
        both = {axis for operand in node.operands for axis in self.group.axes[operand]}
        summed = both - set(self.group.axes[node.result])
        inner = tuple(axis for axis in tiles.visible(self.loop.inner) if axis in summed)
        k = tiles.shape(inner)[0] if inner else 1
        m, n = (tiles.shape(side)[0] if side else 1 for side in (rows, columns))
        a = build.reshape(tiles.align(left, (*rows, *inner)), (m, k))
        b = build.reshape(tiles.align(right, (*inner, *columns)), (k, n))
        exact, compute = bool(node.attributes["exact"]), str(node.attributes["compute"] or "")
        made = build.dot(a, b, None, node.result.type.dtype, exact=exact, compute=compute)
        return Held(build.reshape(made, tiles.shape((*rows, *columns))), (*rows, *columns))

    # Expressions over atoms

    def _atom_axes(self, number: int) -> tuple[int, ...]:
        return self.group.axes[self.loop.atoms[number]]

    def _expression(self, body: Expr, *more: Held) -> Held:
        """Return an expression over atoms, and after them over `more`."""
        used = arguments(body)
        body = convert_first(body, self.index_ranges)
        operands = [
            self._atom(number, value) if number in used else Held(self.builder.index(0))
            for number, value in enumerate(self.loop.atoms)
        ]
        return self.tiles.expression(body, [*operands, *more], self.order)

    def _atom(self, number: int, value: Tensor) -> Held:
        held = self.value(value)
        return Held(self.builder.cast(held.value, self.cascade.region.atoms[number]), held.axes)

    def _full(self, held: Held) -> Held:
        """Return a tile with all rows and the loop's axis."""
        axes = (*self.rows, *self.tiles.visible((self.loop.axis,)))
        return Held(self.tiles.align(held, axes), axes)

    def _binary(self, opcode: str, left: Held, right: Held) -> Held:
        dtype: DType = left.value.type.dtype
        body = apply(opcode, Argument(0, dtype), Argument(1, dtype))
        return self.tiles.expression(body, [left, right], self.order)
