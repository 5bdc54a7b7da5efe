"""Emit a group of tiles: loops over blocks of its outputs, and inside them rows, products, or neither.

before: PRODUCT [contract, map (bias), map (gelu)], axes m, n and k
after:  for m in tile.range(M, BM): for n in tile.range(N, BN):
acc = 0; for k in tile.range(K, BK): acc += dot(A[m, k], B[k, n])
C[m, n] = gelu(acc + bias[n])
"""

from collections.abc import Callable, Sequence
from math import prod

from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Value
from tessera.core.schedule.plan import PRODUCT, Group
from tessera.lowering.schedule.emit.tiles import Arrays, Held, Tiles, unravelled


class BlockEmitter:
    """Emits one group.  arrays: parameters of what is read and of what is written; held: what is computed already."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays, tiles: Tiles) -> None:
        self.builder, self.group, self.arrays, self.tiles = builder, group, arrays, tiles
        self.held: dict[Tensor, Held] = {}
        self.makers: dict[Tensor, Node] = {value: node for node in group.members for value in node.results}
        self.loaded_as = group.loaded_as

    def emit(self) -> None:
        """Emit the whole kernel."""
        stays = dict.fromkeys(axis for value in self.group.outputs for axis in self.group.axes[value])
        self._grid(self._ordered([axis for axis in stays if axis not in self.group.reduced]))

    def _ordered(self, axes: Sequence[int]) -> Sequence[int]:
        """Return the axes of the grid, the one that varies slowest first."""
        return axes

    def _grid(self, axes: Sequence[int]) -> None:
        """Loop over the blocks along `axes`, whose iterations are independent."""
        if not axes:
            for axis in self.group.reduced:
                self.tiles.index[axis] = self.builder.index(0)
            self._inside()
            return
        first, *rest = axes
        extent, block = self.group.extents[first], self.tiles.blocks.get(first, 1)
        if extent <= block:
            self.tiles.index[first] = self.builder.index(0)
            self._grid(rest)
            return

        def body(index: Value, _: Sequence[Value]) -> Sequence[Value]:
            self.tiles.index[first] = index
            self._grid(rest)
            return ()

        build = self.builder
        build.loop(build.index(0), build.index(extent), build.index(block), (), body, "tile")

    def _inside(self) -> None:
        self.held.clear()
        if self.group.kind == PRODUCT:
            self._products([node for node in self.group.members if node.op == "contract"])
        for value in self.group.outputs:
            self.tiles.store(self.arrays.written[value], self.group.stores[value], self.value(value))

    # Values

    def value(self, value: Tensor) -> Held:
        """Return a value as a tile, computed where it is first asked for."""
        value = self.loaded_as.get(value, value)
        pending = [value]
        while pending:  # operands first, from left to right: chains may be longer than Python's stack
            last = pending[-1]
            operand = next((each for each in self._operands(last) if each not in self.held), None)
            if operand is not None:
                pending.append(operand)
                continue
            pending.pop()
            if last not in self.held:
                self.held[last] = self._made(last)
        return self.held[value]

    def _operands(self, value: Tensor) -> list[Tensor]:
        """Return what a value is computed from, element by element."""
        node = None if value in self.group.loads or value in self.held else self.makers.get(value)
        operands = node.operands if node is not None and node.op == "map" else ()
        return [self.loaded_as.get(each, each) for each in operands]

    def _made(self, value: Tensor) -> Held:
        node = self.makers.get(value)
        if node is None or value in self.group.loads:
            return self._load(value)
        with self.builder.at(node.span):
            return self._compute(node)

    def _load(self, value: Tensor) -> Held:
        """Load a block of what is read from memory."""
        return self.tiles.load(self.arrays.read[value], self.group.loads[value])

    def _compute(self, node: Node) -> Held:
        axes = self.group.axes[node.result]
        if node.op == "map":
            operands = [self.value(operand) for operand in node.operands]
            return self.tiles.expression(node.expr, operands, self.tiles.visible(axes))
        if node.op == "reduce":
            operand = node.operands[0]
            removed = [axis for axis in self.group.axes[operand] if axis not in axes]
            held = Held(self.tiles.align(self.value(operand), self.tiles.visible(self.group.axes[operand])),
                        self.tiles.visible(self.group.axes[operand]))  # fmt: skip
            return self.tiles.reduce(held, axes, removed, str(node.attributes["kind"]))
        assert node.op == "iota", node.op
        (axis,) = axes
        start = self.tiles.index[axis]
        if axis not in self.tiles.blocks:
            return Held(start)
        return Held(self.builder.arange(start, self.tiles.blocks[axis]), (axis,))

    # Products

    def _products(self, anchors: Sequence[Node]) -> None:
        """Sum the products of all contractions in one loop over the axes that they sum over."""
        build, tiles = self.builder, self.tiles
        zeros: list[Value] = []
        for node in anchors:
            dtype = node.result.type.dtype
            number = build.constant(0.0 if dtype.is_float else 0, dtype)
            zeros.append(build.full(number, self._matrix_shape(node)))

        def step(sums: Sequence[Value]) -> list[Value]:
            self.held.clear()
            return [self._step(node, acc) for node, acc in zip(anchors, sums, strict=True)]

        sums = self._over_steps(zeros, step)
        self.held.clear()
        for node, total in zip(anchors, sums, strict=True):
            axes = self.tiles.visible(self.group.axes[node.result])
            rows, columns = self._sides(node)
            self.held[node.result] = Held(build.reshape(total, tiles.shape((*rows, *columns))), (*rows, *columns))
            assert set(axes) == {*rows, *columns}

    def _over_steps(
        self, carried: Sequence[Value], step: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        """Loop over the blocks along the axes that are summed, carrying sums; axes of several elements are innermost.

        It is one loop over all of them: copies run ahead from a tap of a filter to the next one, and sums need not be
        waited for in between.
        """
        build, blocks = self.builder, self.tiles.blocks
        trips = {axis: -(-self.group.extents[axis] // blocks.get(axis, 1)) for axis in self.group.reduced}
        self.tiles.index.update((axis, build.index(0)) for axis, count in trips.items() if count == 1)
        order = sorted((axis for axis, count in trips.items() if count > 1), key=lambda axis: axis in blocks)
        if not order:
            return step(carried)
        if len(order) == 1:
            (axis,) = order

            def along(index: Value, sums: Sequence[Value]) -> Sequence[Value]:
                self.tiles.index[axis] = index
                return step(sums)

            end, size = self.group.extents[axis], blocks.get(axis, 1)
            return build.loop(build.index(0), build.index(end), build.index(size), carried, along, "tile")

        def body(number: Value, sums: Sequence[Value]) -> Sequence[Value]:
            for axis, index in zip(order, unravelled(build, number, [trips[axis] for axis in order]), strict=True):
                self.tiles.index[axis] = build.arithmetic("mul", index, build.index(blocks.get(axis, 1)))
            return step(sums)

        count = build.index(prod(trips[axis] for axis in order))
        return build.loop(build.index(0), count, build.index(1), carried, body, "tile")

    def _sides(self, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes of tiles that are the rows and the columns of a contraction."""
        left, right = (self.group.axes[operand] for operand in node.operands)
        result = self.tiles.visible(self.group.axes[node.result])
        rows = tuple(axis for axis in result if axis in left)
        return rows, tuple(axis for axis in result if axis in right and axis not in left)

    def _matrix_shape(self, node: Node) -> tuple[int, int]:
        rows, columns = self._sides(node)
        return prod(self.tiles.shape(rows)), prod(self.tiles.shape(columns))

    def _step(self, node: Node, acc: Value) -> Value:
        """Add the product of two blocks."""
        with self.builder.at(node.span):
            rows, columns = self._sides(node)
            inner = tuple(axis for axis in self.group.reduced if axis in self.tiles.blocks)
            left, right = (
                self.tiles.within(self.value(operand), inner, self.group.extents) for operand in node.operands
            )
            a, b = self.tiles.matrix(left, rows, inner), self.tiles.matrix(right, inner, columns)
            exact, compute = bool(node.attributes["exact"]), str(node.attributes["compute"] or "")
            return self.builder.dot(a, b, acc, node.result.type.dtype, exact=exact, compute=compute)
