"""The blocks of a cascade's loop that a mask leaves: its bounds for a block of rows, and which blocks are cut.

before: j <= i, rows m to m + 127, blocks of 128 columns
after:  for j in tile.range(0, min(columns, m + 128), 128): if j + 127 > m: mask
"""

from tessera.core.graph.expr import Expr, apply
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Value
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.domains import ColumnBound, MaskForm, common_indicator, domain
from tessera.lowering.schedule.emit.tiles import Tiles


class VisibleBlocks:
    """Emits bounds.  rows: the axes of a block of rows; the others: those of the emitter of the cascade."""

    def __init__(self, builder: ProgramBuilder, group: Group, tiles: Tiles, rows: tuple[int, ...]) -> None:
        assert group.loop is not None
        self.builder, self.group, self.tiles, self.rows = builder, group, tiles, rows
        self.loop, self.cascade, self.axis = group.loop, group.loop.cascade, group.loop.axis
        self.makers = {value: node for node in group.members for value in node.results}

    def bounds(self) -> tuple[Value, Value]:
        """Return the first and the last column that the block of rows sees: all, or what the masks leave."""
        build, extent = self.builder, self.group.extents[self.axis]
        indicators = [each.indicator for each in self.cascade.moments]
        indicators += [each.indicator for each in self.cascade.anchors]
        places = self._index_atoms()
        common = common_indicator(indicators)
        alone = any(each.anchor is None for each in self.cascade.extrema)
        if places is None or not common or alone or len(self.rows) != 1:
            return build.index(0), build.index(extent)
        row, column = places
        mask, *others = common
        for each in others:
            mask = apply("and", mask, each)
        found = domain(mask, row, column)
        block = self.tiles.blocks[self.rows[0]]
        lower, upper = found.visited(MaskForm(row=1), block)
        width = build.index(self.tiles.blocks.get(self.axis, 1))
        first, last = build.index(0), build.index(extent)
        for bound in lower:
            if not bound.numerator.symbols:
                least = build.arithmetic("max", self._at(bound, up=True), first)
                first = build.arithmetic("mul", build.arithmetic("floordiv", least, width), width)
        for bound in upper:
            if not bound.numerator.symbols:
                at = build.arithmetic("add", self._at(bound, up=False), build.index(1))
                last = build.arithmetic("min", last, at)
        return first, last

    def _index_atoms(self) -> tuple[int, int] | None:
        """Return the atoms that are the index of the row and of the column."""
        row = column = None
        for number, value in enumerate(self.loop.atoms):
            node = self.makers.get(value)
            if node is not None and node.op == "iota":
                (axis,) = self.group.axes[value]
                if axis == self.axis:
                    column = number
                elif self.rows and axis == self.rows[0]:
                    row = number
        return None if row is None or column is None else (row, column)

    def _at(self, bound: ColumnBound, *, up: bool) -> Value:
        """Return a bound for the block of rows that begins at the current index."""
        build = self.builder
        form = bound.numerator
        total = build.index(form.constant)
        if form.row:
            at = self.tiles.index[self.rows[0]]
            at = at if form.row == 1 else build.arithmetic("mul", at, build.index(form.row))
            total = build.arithmetic("add", at, total)
        if bound.quantum != 1:
            quantum = build.index(bound.quantum)
            total = build.arithmetic("mul", build.arithmetic("floordiv", total, quantum), quantum)
            total = build.arithmetic("add", total, build.index(bound.offset))
        if bound.divisor == 1:
            return total
        if up:
            total = build.arithmetic("add", total, build.index(bound.divisor - 1))
        return build.arithmetic("floordiv", total, build.index(bound.divisor))

    def partial(self, indicator: Expr) -> Value | None:
        """Return whether the current block has elements that a mask hides; None where that is not known."""
        build, places = self.builder, self._index_atoms()
        if places is None or len(self.rows) != 1:
            return None
        bounds = domain(indicator, *places).full(MaskForm(row=1), self.tiles.blocks[self.rows[0]])
        if bounds is None or any(bound.numerator.symbols for side in bounds for bound in side):
            return None
        lower, upper = bounds
        first = self.tiles.index[self.axis]
        last = build.arithmetic("add", first, build.index(self.tiles.blocks.get(self.axis, 1) - 1))
        found: Value | None = None
        for test in (
            *(build.compare("lt", first, self._at(bound, up=True)) for bound in lower),
            *(build.compare("gt", last, self._at(bound, up=False)) for bound in upper),
        ):
            found = test if found is None else build.value("or", (found, test), test.type)
        return found
