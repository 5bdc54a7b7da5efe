"""Emit a cascade: one loop over an axis that carries moments and anchors, and the results when it is done.

    before: CASCADE [contract, map, reduce, map, reduce, map, contract]: M0 = sum exp(s - c), M1 = sum exp(s - c) v
    after:  for j in tile.range(first, last, BN):
                s = dot(q, k.T); top = max(c, max_j s * log2(e)); p = exp2(s * log2(e) - top); shrink = exp2(c - top)
                M0 = M0 * shrink + sum p; M1 = dot(p, v, M1 * shrink); c = top
            o = M1 / M0

Exponents are in base 2, with their scale in one fused multiply-add.  Where a mask says which columns a block of rows
sees, the loop goes over these alone.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, arguments
from tessera.core.graph.graph import Node
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Value
from tessera.core.schedule.algebra import state_origins
from tessera.core.schedule.cascade import Anchor, Moment
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.axis_ends import ends
from tessera.lowering.schedule.cascades.atom_products import divided_once, parted
from tessera.lowering.schedule.emit.cascade_tiles import CascadeTiles
from tessera.lowering.schedule.emit.tiles import Arrays, Held, Tiles
from tessera.lowering.schedule.emit.visible_blocks import VisibleBlocks

_LOG2_E: Final = math.log2(math.e)
_SLACK: Final = 8.0
"""How far, in powers of two, a weight may exceed one: 256 times as much changes no rounding."""
_COLUMNS: Final = 8
"""Sums are carried for every eighth element apart, and added together at the end: lanes then have no need to meet."""
_LOWEST: Final = -1e30
"""The anchor while nothing was visible: below every score, and -inf minus it is a number's exponent."""


class CascadeEmitter(CascadeTiles):
    """Emits one cascade."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays, tiles: Tiles) -> None:
        super().__init__(builder, group, arrays, tiles)
        tied = {extremum.anchor for extremum in self.cascade.extrema}
        self.places = [self.loop.reductions[number].span for number in state_origins(self.cascade)]
        self.lags = [number not in tied for number in range(len(self.cascade.anchors))]
        block = tiles.blocks.get(self.loop.axis, 1)
        self.blocks = VisibleBlocks(builder, group, tiles, self.rows)
        self.even = (not self.ragged or self._hides_ends()) and block % _COLUMNS == 0 and len(self.rows) == 1
        self.cut = self.ragged and self._hides_ends()

    def _hides_ends(self) -> bool:
        """Return whether scores of -inf behind the axis' end suffice: all that is summed is weighed by them, and is 0.

        What the last block loads there is 0 then, and the block is masked; all others need no mask.
        """
        cascade = self.cascade
        if any(extremum.anchor is None for extremum in cascade.extrema):
            return False
        for moment in cascade.moments:
            rows, columns = parted(moment.payload, lambda n: bool(set(self.columns) & set(self._atom_axes(n))))
            if moment.anchor is None or rows is not None or not isinstance(columns, Argument | None):
                return False
            if columns is not None and self.loop.axis not in self._atom_axes(columns.number):
                return False
        return True

    def _ordered(self, axes: Sequence[int]) -> Sequence[int]:
        """Return the axes along which the loop reads other arrays first: blocks of rows that read the same follow.

        Keys and values of one head then stay in the L2 cache, wherever the heads lie in the output.
        """
        loads = [set(self.group.axes[value]) for value in self.group.loads]
        streamed = {axis for each in loads if self.loop.axis in each and not each & set(self.rows) for axis in each}
        return sorted(axes, key=lambda axis: axis not in streamed)

    def _inside(self) -> None:
        self.held.clear()
        for axis in (*self.loop.inner, *self.loop.columns):
            self.tiles.index[axis] = self.builder.index(0)
        span = self.loop.reductions[-1].span
        with self.builder.at(span):
            state = self._loop()
            for node, held in zip(self.loop.reductions, self._results(state), strict=True):
                if held is not None:
                    self.held[node.result] = held
        for value in self.group.outputs:
            self.tiles.store(self.arrays.written[value], self.group.stores[value], self.value(value))

    # The loop

    def _loop(self) -> list[Value]:
        """Emit the loop; return moments, running anchors and extrema as they are at its end."""
        start = self._initial()
        outside = dict(self.held)
        made = self._around(list(self.loop.around), start)
        self.held = outside
        return list(made)

    def _around(self, axes: list[int], carried: Sequence[Value]) -> Sequence[Value]:
        """Loop over the elements of axes that are summed over too, the first one outermost."""
        if not axes:
            return self._blocks(carried)
        build, (first, *rest) = self.builder, axes
        outside = dict(self.held)

        def body(index: Value, carried: Sequence[Value]) -> Sequence[Value]:
            self.tiles.index[first] = index
            self.held = dict(outside)
            return self._around(rest, carried)

        self._load_before(first)
        outside = dict(self.held)
        end = build.index(self.group.extents[first])
        return build.loop(build.index(0), end, build.index(1), carried, body, "tile")

    def _blocks(self, carried: Sequence[Value]) -> Sequence[Value]:
        """Loop over blocks of the axis."""
        build, axis = self.builder, self.loop.axis
        first, last = self.blocks.bounds()
        self._load_before(axis)
        outside = dict(self.held)

        def body(index: Value, carried: Sequence[Value]) -> Sequence[Value]:
            self.tiles.index[axis] = index
            self.held = dict(outside)
            return self._block(list(carried))

        block = self.tiles.blocks.get(axis, 1)
        return build.loop(first, last, build.index(block), carried, body, "tile")

    def _load_before(self, axis: int) -> None:
        """Load what the loop over an axis, and those inside of it, do not change."""
        axes = {axis, *self.loop.around[self.loop.around.index(axis) :]} if axis in self.loop.around else {axis}
        axes.add(self.loop.axis)
        for number, value in enumerate(self.loop.atoms):
            if number in self.cascade.region.invariant and not axes & set(self.group.axes[value]):
                self.value(value)
        for node in self._inner():
            for operand in node.operands:
                if not axes & set(self.group.axes[operand]):
                    self.value(operand)

    def _initial(self) -> list[Value]:
        """Return what the loop begins with: sums of 0, anchors and maxima of -inf, minima of inf."""
        build, cascade = self.builder, self.cascade
        start = [
            build.full(build.constant(0.0, moment.dtype), self._carried_shape(moment)) for moment in cascade.moments
        ]
        for lags, anchor in zip(self.lags, cascade.anchors, strict=True):
            if anchor.constant is None:
                number = build.constant(_LOWEST if lags else -math.inf, anchor.exponent.dtype)
                start.append(build.full(number, self.tiles.shape(self.rows)))
        for extremum in cascade.extrema:
            if extremum.anchor is None:
                number = build.constant(-math.inf if extremum.kind == "max" else math.inf, extremum.body.dtype)
                start.append(build.full(number, self.tiles.shape(self.rows)))
        return start

    def _carried_shape(self, moment: Moment) -> tuple[int, ...]:
        """Return the shape in which a moment is carried: sums of rows, in several columns where that comes out even."""
        axes = self._axes(moment)
        return (*self.tiles.shape(axes), *((_COLUMNS,) if self._in_columns(moment) else ()))

    def _in_columns(self, moment: Moment) -> bool:
        return self.even and self._axes(moment) == self.rows

    def _block(self, carried: list[Value]) -> list[Value]:
        """Emit one block of the loop."""
        build, cascade = self.builder, self.cascade
        count = len(cascade.moments)
        tops = iter(carried[count:])
        weights: list[Held] = []
        shrinks: list[Held | None] = []
        after: list[Value] = []
        for place, (lags, anchor) in enumerate(zip(self.lags, cascade.anchors, strict=True), count):
            with build.at(self.places[place]):
                if anchor.constant is not None:
                    weights.append(self._fixed(anchor, anchor.constant))
                    shrinks.append(None)
                    continue
                scores, scale = self._scores(anchor)
                old = Held(next(tops), self.rows)
                top, weight, shrink = self._moved(scores, scale, old, lags=lags)
                after.append(self.tiles.align(top, self.rows))
                weights.append(weight)
                shrinks.append(shrink)
        for extremum in cascade.extrema:
            if extremum.anchor is None:
                none = -math.inf if extremum.kind == "max" else math.inf
                held = self._ended(self._expression(extremum.body), extremum.body, none)
                best = self.tiles.reduce(self._full(held), self.rows, (self.loop.axis,), extremum.kind)
                old = Held(next(tops), self.rows)
                after.append(self.tiles.align(self._binary(extremum.kind, old, best), self.rows))
        moments: list[Value] = []
        for place, moment in enumerate(cascade.moments):
            with build.at(self.places[place]):
                moments.append(self._moment(moment, carried[place], weights, shrinks))
        return [*moments, *after]

    def _fixed(self, anchor: Anchor, constant: float) -> Held:
        """Return weights relative to a constant; what exponents add along fewer axes is part of one multiply-add."""
        body, dtype = anchor.exponent, anchor.exponent.dtype
        below: Expr | None = None
        if isinstance(body, Apply) and body.opcode in ("add", "sub") and not self._is_full(body.operands[1]):
            scale = _LOG2_E if body.opcode == "add" else -_LOG2_E
            body, added = body.operands
            below = apply("mul", added, Literal(scale, dtype))
        if constant or below is None:
            number = Literal(-constant * _LOG2_E, dtype)
            below = number if below is None else apply("add", below, number)
        scores, scale = self._scores(replace(anchor, exponent=body))
        # Products begin before the exponentials that hide them.
        inner = {node.result for node in self._inner()}
        for number in sorted({n for moment in self.cascade.moments for n in arguments(moment.payload)}):
            if self.loop.atoms[number] in inner:
                self.value(self.loop.atoms[number])
        return self._powers(scores, scale, self._expression(below))

    def _is_full(self, body: Expr) -> bool:
        """Return whether an expression has the rows and the loop's axis."""
        axes = {axis for number in arguments(body) for axis in self._atom_axes(number)}
        return {*self.rows, self.loop.axis} <= axes

    def _scores(self, anchor: Anchor) -> tuple[Held, float]:
        """Return an exponent as a tile and a scale to base 2; elements that are not visible are -inf."""
        scores, scale = self._visible_scores(anchor)
        return scores if self.cut else self._ended(scores, anchor.exponent, -math.inf), scale

    def _ended(self, held: Held, body: Expr, neutral: float) -> Held:
        """Return the tile of an expression, with a number behind the end of the axis where it is not absent there."""
        if not self.ragged or ends(body, self.loop.ended, neutral):
            return held
        return self._inside_or(held, neutral, self.order)

    def _visible_scores(self, anchor: Anchor) -> tuple[Held, float]:
        body, scale = anchor.exponent, _LOG2_E
        if isinstance(body, Apply) and body.opcode == "mul":
            literal = next((each for each in body.operands if isinstance(each, Literal)), None)
            rest = next((each for each in body.operands if not isinstance(each, Literal)), None)
            if literal is not None and rest is not None and literal.value > 0:
                body, scale = rest, scale * literal.value
        visible, partial = self._visible(anchor)
        if visible is None:
            return self._expression(body), scale
        more = [self._places()] if self.cut else []
        masked = apply("select", visible, body, Literal(-math.inf, body.dtype))
        if partial is None:
            return self._expression(masked, *more), scale
        plain = self._full(self._expression(body))
        before = dict(self.held)

        def select() -> Sequence[Value]:
            made = self._full(self._expression(masked, *more)).value
            self.held = dict(before)
            return (made,)

        (scores,) = self.builder.branch(partial, select, lambda: (plain.value,))
        return Held(scores, plain.axes), scale

    def _places(self) -> Held:
        """Return the indices of the block along the loop's axis."""
        axis = self.loop.axis
        return Held(self.builder.arange(self.tiles.index[axis], self.tiles.blocks[axis]), (axis,))

    def _visible(self, anchor: Anchor) -> tuple[Expr | None, Value | None]:
        """Return which elements count, over the atoms and the places of the block, and whether a block has others."""
        build, axis = self.builder, self.loop.axis
        visible, partial = anchor.indicator, None
        if visible is not None:
            partial = self.blocks.partial(visible)
        if not self.cut:
            return visible, partial
        extent = self.group.extents[axis]
        end = apply("cmp", Argument(len(self.loop.atoms), i64), Literal(extent, i64), predicate="lt")
        last = build.arithmetic("add", self.tiles.index[axis], build.index(self.tiles.blocks[axis]))
        beyond = build.compare("gt", last, build.index(extent))
        if visible is None:
            return end, beyond
        if partial is not None:
            partial = build.value("or", (partial, beyond), partial.type)
        return apply("and", visible, end), partial

    def _powers(self, scores: Held, scale: float, below: Held) -> Held:
        """Return exp2(scores * scale + below)."""
        dtype = scores.value.type.dtype
        body = apply("fma", Argument(0, dtype), Literal(scale, dtype), Argument(1, dtype))
        return self.tiles.expression(apply("exp2", body), [scores, below], self.order)

    def _moved(self, scores: Held, scale: float, old: Held, *, lags: bool) -> tuple[Held, Held, Held]:
        """Return the new anchor (base 2), the weights relative to it, and what it shrinks the sums by.

        lags: the anchor may stay behind the maximum, as it is not asked for: while it does, nothing is rescaled
        """
        dtype = scores.value.type.dtype
        best = self.tiles.reduce(self._full(scores), self.rows, (self.loop.axis,), "max")
        x, y = Argument(0, dtype), Argument(1, dtype)
        grown = self.tiles.expression(apply("max", x, apply("mul", y, Literal(scale, dtype))), [old, best], self.rows)
        if lags:
            near = apply("cmp", apply("sub", y, x), Literal(_SLACK, dtype), predicate="le")
            top = used = self.tiles.expression(apply("select", near, x, y), [old, grown], self.rows)
        else:
            # -inf minus -inf is no number: while nothing is visible the anchor counts as 0.
            unseen = apply("cmp", x, Literal(-math.inf, dtype), predicate="eq")
            top = grown
            used = self.tiles.expression(apply("select", unseen, Literal(0.0, dtype), x), [top], self.rows)
        below = self.tiles.expression(apply("neg", x), [used], self.rows)
        weights = self._powers(scores, scale, below)
        shrink = self.tiles.expression(apply("exp2", apply("sub", x, y)), [old, used], self.rows)
        return top, weights, shrink

    def _moment(self, moment: Moment, old: Value, weights: Sequence[Held], shrinks: Sequence[Held | None]) -> Value:
        """Return a moment with what a block adds to it."""
        axes = self._axes(moment)
        shrink = None if moment.anchor is None else shrinks[moment.anchor]
        if self._in_columns(moment):
            return self._add_columns(moment, old, weights, shrink)
        total = Held(old, axes)
        if shrink is not None:
            total = self._binary("mul", total, shrink)
        weight, columns = self._weight(moment, weights)
        if columns is None:
            added = self.tiles.reduce(self._full(weight), self.rows, (self.loop.axis,), "sum")
            return self.tiles.align(self._binary("add", total, added), axes)
        wide = [axis for axis in axes if axis in self.columns]
        return self._product(weight, columns, self.tiles.align(total, axes), wide)

    def _weight(self, moment: Moment, weights: Sequence[Held]) -> tuple[Held, Expr | None]:
        """Return what a moment sums: the part along rows, and the part that has columns."""
        weight = None if moment.anchor is None else weights[moment.anchor]
        rows, columns = parted(moment.payload, lambda n: bool(set(self.columns) & set(self._atom_axes(n))))
        if rows is not None:
            held = self._expression(rows)
            weight = held if weight is None else self._binary("mul", weight, held)
        weight = weight or Held(self.builder.constant(1.0, moment.dtype))
        if not self._ends_by_exponent(moment):
            # Columns alone end by themselves: 1 times what is absent is nothing.  An infinity times that is not.
            body = rows or columns or moment.payload
            weight = self._ended(weight, body, 0.0)
        if moment.indicator is not None and not self._hidden(moment):
            zero = Literal(0.0, moment.dtype)
            body = apply("select", moment.indicator, Argument(len(self.loop.atoms), moment.dtype), zero)
            weight = self._expression(body, weight)
        return weight, columns

    def _ends_by_exponent(self, moment: Moment) -> bool:
        """Return whether the weights of a moment are absent behind the end of the axis, as their exponent is."""
        if moment.anchor is None:
            return False
        return ends(self.cascade.anchors[moment.anchor].exponent, self.loop.ended, math.nan)

    def _add_columns(self, moment: Moment, old: Value, weights: Sequence[Held], shrink: Held | None) -> Value:
        """Return sums of rows in columns, with what a block adds to them."""
        build = self.builder
        weight, _ = self._weight(moment, weights)
        tile = self._full(weight).value
        rows, block = self.tiles.shape(self.order[:2])
        added = build.reduce(build.reshape(tile, (rows, block // _COLUMNS, _COLUMNS)), "sum", 1)
        if shrink is not None:
            spread = build.reshape(self.tiles.align(shrink, self.rows), (rows, 1))
            old = build.arithmetic("mul", old, build.broadcast(spread, (rows, _COLUMNS)))
        return build.arithmetic("add", old, added)

    def _hidden(self, moment: Moment) -> bool:
        """Return whether elements that do not count have weight 0 already."""
        if moment.anchor is None or moment.indicator is None:
            return False
        return self.cascade.anchors[moment.anchor].indicator == moment.indicator

    # Results

    def _results(self, state: list[Value]) -> list[Held | None]:
        """Return what the reductions are."""
        build, cascade = self.builder, self.cascade
        values = iter(state)
        moments = [
            Held(build.reduce(next(values), "sum", 1) if self._in_columns(moment) else next(values), self._axes(moment))
            for moment in cascade.moments
        ]
        raw: list[Held | None] = []
        anchors: list[Held] = []
        for lags, anchor in zip(self.lags, cascade.anchors, strict=True):
            dtype = anchor.exponent.dtype
            if anchor.constant is not None:
                anchors.append(Held(build.constant(anchor.constant, dtype)))
                raw.append(None)
                continue
            x = Argument(0, dtype)
            top = self.tiles.expression(
                apply("mul", x, Literal(1 / _LOG2_E, dtype)), [Held(next(values), self.rows)], self.rows
            )
            raw.append(top)
            if lags:
                anchors.append(top)
                continue
            unseen = apply("cmp", x, Literal(-math.inf, dtype), predicate="eq")
            anchors.append(self.tiles.expression(apply("select", unseen, Literal(0.0, dtype), x), [top], self.rows))
        extrema: list[Held] = []
        for extremum in cascade.extrema:
            tied = None if extremum.anchor is None else raw[extremum.anchor]
            extrema.append(tied or Held(next(values), self.rows))
        atoms = [
            self._atom(number, value) if number in cascade.region.invariant else Held(build.index(0))
            for number, value in enumerate(self.loop.atoms)
        ]
        operands = [*moments, *anchors, *extrema, *atoms]
        order = (*self.rows, *self.columns)
        return [None if each is None else self._rounded(each, operands, order, node)
                for each, node in zip(cascade.lower, self.loop.reductions, strict=True)]  # fmt: skip

    def _rounded(self, body: Expr, operands: Sequence[Held], order: Sequence[int], node: Node) -> Held:
        wide = {number for number, held in enumerate(operands) if set(held.axes) & set(self.columns)}
        held = self.tiles.expression(divided_once(body, wide), operands, order)
        return Held(self.builder.cast(held.value, node.result.type.dtype), held.axes)
