"""Turn sums into one place into reductions over the trips of a loop, in the one association that all reductions have.

before: `for r in tile.range(n): out[0] += f(r)`, each trip of which needs what the one before has written
after:  three loops over tiles, whose trips are independent (`core/base/reductions.py` says why in this shape)

    for g in tile.range(128 * blocks):          # column g % 128 of the block g // 128 of 4096 trips
        sum = -0.0
        for t in range(first, last, 128): sum += f(t)
        partial[g] = sum
    for b in tile.range(blocks): total[b] = tile.sum(partial[128 * b:128 * b + 128])
    while there are two totals: add neighbours
    out[0] = out[0] + total[0]

What else the loop does, in trips that do not meet, it goes on doing in the first of the three.  The same is done with
`min` and `max`.  Every target runs the result, the interpreter too, so that the bits are the same everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.base.dtypes import boolean, i64
from tessera.core.base.reductions import BLOCK, COLUMNS, identity
from tessera.core.base.source import Span
from tessera.core.program.dependences import Dependences
from tessera.core.program.expressions import Expression, make
from tessera.core.program.program import Attribute, Block, Op, Program, Value, Workspace, find
from tessera.core.program.types import Array, Scalar, Tile, Type
from tessera.frontend.build.accumulations import Accumulation, Plan, count, plan_of

_CHUNK: Final = 32
_INDEX: Final = Scalar(i64)


def reduce_trips(program: Program) -> Program:
    """`program` with its sums into one place done as reductions."""
    if find(program.body, lambda op: op.opcode == "id"):
        return program
    dependences = Dependences(program)
    ops: list[Op] = []
    spaces: list[Workspace] = []
    for op in program.body.ops:
        found = plan_of(op, dependences) if op.opcode == "for" else None
        if found is None:
            ops.append(op)
        else:
            maker = _Maker(found, len(spaces))
            ops += maker.make()
            spaces += maker.spaces
    return replace(program, body=Block((), tuple(ops)), workspaces=tuple(spaces)) if spaces else program


class _Maker:
    """Makes the loops of one plan; `spaces` are the workspaces that they need."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.plan = plan
        self.span: Span = plan.loops[0].span
        self.spaces: list[Workspace] = []
        self._blocks: list[list[Op]] = [[]]
        self._partials = [self._space(one, number + 2 * n, COLUMNS) for n, one in enumerate(plan.accumulations)]
        self._totals = [self._space(one, number + 2 * n + 1, 1) for n, one in enumerate(plan.accumulations)]

    def make(self) -> list[Op]:
        """The operations in place of the loop."""
        self._blocks[-1] += self.plan.outside
        trips = self.express(self.plan.trips)
        blocks = self.binary("floordiv", self.binary("add", trips, self.const(BLOCK - 1)), self.const(BLOCK))
        self._add_columns(trips, blocks)
        for one, partial, total in zip(self.plan.accumulations, self._partials, self._totals, strict=True):
            self._add_blocks(one, partial, total, blocks)
        for one, total in zip(self.plan.accumulations, self._totals, strict=True):
            self._add_pairs(one, total, blocks)
            self._finish(one, total, blocks)
        return self._blocks[0]

    def _space(self, one: Accumulation, number: int, rows: int) -> Value:
        """A workspace with `rows` rows for each block of trips, and a column for each element."""
        name = f"$sums{number}"
        blocks = make("floordiv", make("add", self.plan.trips, BLOCK - 1), BLOCK)
        columns = () if one.elements is None else (one.elements,)
        value = Value(Array(one.partial, (f"{name}.rows", *columns)), name, self.span)
        self.spaces.append(Workspace(value, (make("mul", blocks, rows), *columns)))
        return value

    def _add_columns(self, trips: Value, blocks: Value) -> None:
        """Let each trip of a loop add every 128th trip of a block of 4096."""
        plan, first = self.plan, self.const(0)
        initial = [self._identity(one) for one in plan.accumulations]
        group = Value(_INDEX, "column", self.span)
        outer = self._begin()
        block, column = (self.binary(name, group, self.const(COLUMNS)) for name in ("floordiv", "mod"))
        start = self.binary("mul", block, self.const(BLOCK))
        stop = self.binary("min", trips, self.binary("add", start, self.const(BLOCK)))
        trip = Value(_INDEX, "trip", self.span)
        carried = [Value(value.type, "", self.span) for value in initial]
        inner = self._begin()
        self._indices(trip)
        self._body(carried)
        results = [Value(value.type, "", self.span) for value in initial]
        inner_body = self._end(inner, (trip, *carried))
        bounds = (self.binary("add", start, column), stop, self.const(COLUMNS))
        self._emit("for", (*bounds, *initial), results, {"kind": "range", "prefetch": 0}, (inner_body,))
        for one, space, result in zip(plan.accumulations, self._partials, results, strict=True):
            self._put(space, one, result, group)
        self._yield(())
        body = self._end(outer, (group,))
        groups = self.binary("mul", blocks, self.const(COLUMNS))
        self._emit(
            "for", (first, groups, self.const(1)), (), {"kind": "tile", "prefetch": 0, "parallel": True}, (body,)
        )

    def _indices(self, trip: Value) -> None:
        """The index of each loop of the nest, from the number of the trip; the innermost runs fastest."""
        plan, rest = self.plan, trip
        for place in reversed(range(len(plan.loops))):
            loop, number = plan.loops[place], rest
            if place:
                trips = self.express(count(plan.lengths[place], plan.steps[place]))
                number, rest = self.binary("mod", rest, trips), self.binary("floordiv", rest, trips)
            moved = self.binary("mul", number, self.const(plan.steps[place]))
            first = self.const(plan.lowers[place])
            self._emit("add", (moved, first), (loop.regions[0].arguments[0],), {})

    def _body(self, carried: Sequence[Value]) -> None:
        """Build the innermost loop's body, with carried accumulators in place of the stored elements."""
        plan = self.plan
        left_out = {*plan.loops, *plan.outside, *(op for one in plan.accumulations for op in one.ops)}
        for loop in plan.loops:
            self._blocks[-1] += [op for op in loop.regions[0].ops if op not in left_out and op.opcode != "yield"]
        totals: list[Value] = []
        for one, before in zip(plan.accumulations, carried, strict=True):
            term = one.term
            if term.type != before.type:
                term = self._value("cast", (term,), before.type)
            if isinstance(term.type, Tile):  # what does not exist is not added
                number = identity(one.kind, one.partial.numpy).item()
                nothing = self._value("const", (), Scalar(one.partial), value=number)
                term = self._value("fill", (term, nothing), term.type)
            totals.append(self._value(one.add.opcode, (before, term), before.type))
        self._yield(totals)

    def _add_blocks(self, one: Accumulation, partial: Value, total: Value, blocks: Value) -> None:
        """Add the 128 columns of each block."""
        outer, number = self._begin(), Value(_INDEX, "block", self.span)
        first = self.binary("mul", number, self.const(COLUMNS))
        if one.elements is None:
            tile = self._load(partial, (first,), (COLUMNS,))
            self._emit("write", (total, self._reduced(one, tile), number), (), {"cache": ""})
        else:
            width = min(_CHUNK, one.elements)
            inner, column = self._begin(), Value(_INDEX, "element", self.span)
            tile = self._load(partial, (first, column), (COLUMNS, width))
            self._store(total, self._reduced(one, tile), (number, column), (1, width), (0,))
            self._yield(())
            body = self._end(inner, (column,))
            bounds = (self.const(0), self.const(one.elements), self.const(width))
            self._emit("for", bounds, (), {"kind": "tile", "prefetch": 0, "parallel": True}, (body,))
        self._yield(())
        body = self._end(outer, (number,))
        bounds = (self.const(0), blocks, self.const(1))
        self._emit("for", bounds, (), {"kind": "tile", "prefetch": 0, "parallel": True}, (body,))

    def _add_pairs(self, one: Accumulation, total: Value, blocks: Value) -> None:
        """Add the blocks' totals, neighbours first, until one is left."""
        width, inside = (Value(_INDEX, "width", self.span) for _ in range(2))
        test = self._begin()
        self._yield((self._value("cmp", (width, blocks), Scalar(boolean), predicate="lt"), width))
        condition = self._end(test, (width,))
        outer = self._begin()
        twice = self.binary("add", inside, inside)
        inner, number = self._begin(), Value(_INDEX, "block", self.span)
        left, right = self._get(total, one, number), self._get(total, one, self.binary("add", number, inside))
        self._put(total, one, self._value(one.add.opcode, (left, right), left.type), number)
        self._yield(())
        body = self._end(inner, (number,))
        bounds = (self.const(0), self.binary("sub", blocks, inside), twice)
        self._emit("for", bounds, (), {"kind": "range", "prefetch": 0}, (body,))
        self._yield((twice,))
        loop = self._end(outer, (inside,))
        self._emit("while", (self.const(1),), (Value(_INDEX, "", self.span),), {}, (condition, loop))

    def _finish(self, one: Accumulation, total: Value, blocks: Value) -> None:
        """Add the total to what is in the place, where there was a trip."""
        some = self._value("cmp", (blocks, self.const(0)), Scalar(boolean), predicate="gt")
        inside = self._begin()
        old = Value(one.type, "", self.span)
        self._emit(one.read.opcode, one.write.operands[:1] + one.write.operands[2:], (old,), one.read.attributes)
        new = self._get(total, one, self.const(0))
        wide = old if old.type == new.type else self._value("cast", (old,), new.type)
        made = self._value(one.add.opcode, (wide, new), new.type)
        stored = made if made.type == old.type else self._value("cast", (made,), old.type)
        memory, _, *starts = one.write.operands
        self._emit(one.write.opcode, (memory, stored, *starts), (), one.write.attributes)
        self._yield(())
        yes = self._end(inside, ())
        nothing = self._begin()
        self._yield(())
        self._emit("if", (some,), (), {}, (yes, self._end(nothing, ())))

    # -- workspaces ----------------------------------------------------------------------------------------------------

    def _identity(self, one: Accumulation) -> Value:
        value = identity(one.kind, one.partial.numpy).item()
        scalar = self._value("const", (), Scalar(one.partial), value=value)
        return (
            scalar
            if isinstance(one.type, Scalar)
            else self._value("full", (scalar,), Tile(one.partial, one.type.shape))
        )

    def _reduced(self, one: Accumulation, tile: Value) -> Value:
        assert isinstance(tile.type, Tile)
        rest = tile.type.shape[1:]
        result = Tile(one.partial, rest) if rest else Scalar(one.partial)
        return self._value("reduce", (tile,), result, kind=one.kind, axis=0)

    def _put(self, space: Value, one: Accumulation, value: Value, row: Value) -> None:
        if one.elements is None:
            self._emit("write", (space, value, row), (), {"cache": ""})
            return
        flat = Tile(one.partial, (one.elements,))
        value = value if value.type == flat else self._value("reshape", (value,), flat)
        self._store(space, value, (row, self.const(0)), (1, one.elements), (0,))

    def _get(self, space: Value, one: Accumulation, row: Value) -> Value:
        if one.elements is None:
            return self._value("read", (space, row), Scalar(one.partial), cache="")
        tile = self._load(space, (row, self.const(0)), (1, one.elements), (0,))
        kind = Tile(one.partial, one.type.shape) if isinstance(one.type, Tile) else tile.type
        return tile if tile.type == kind else self._value("reshape", (tile,), kind)

    def _load(
        self, memory: Value, starts: Sequence[Value], extents: tuple[int, ...], dropped: tuple[int, ...] = ()
    ) -> Value:
        shape = tuple(extent for axis, extent in enumerate(extents) if axis not in dropped)
        kind = Tile(memory.type.dtype, shape)
        return self._value("load", (memory, *starts), kind, extents=extents, dropped=dropped, cache="")

    def _store(
        self, memory: Value, tile: Value, starts: Sequence[Value], extents: tuple[int, ...], dropped: tuple[int, ...]
    ) -> None:
        self._emit("store", (memory, tile, *starts), (), {"extents": extents, "dropped": dropped, "cache": ""})

    # -- operations ----------------------------------------------------------------------------------------------------

    def express(self, expression: Expression) -> Value:
        """The value of an expression of shape symbols."""
        match expression:
            case int():
                return self.const(expression)
            case str():
                return self._value("dim", (), _INDEX, symbol=expression)
            case (name, a, b):
                return self.binary(name, self.express(a), self.express(b))

    def const(self, number: int) -> Value:
        """An index."""
        return self._value("const", (), _INDEX, value=number)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        """Arithmetic on indices."""
        return self._value(name, (a, b), _INDEX)

    def _value(self, opcode: str, operands: Sequence[Value], kind: Type, /, **attributes: Attribute) -> Value:
        result = Value(kind, "", self.span)
        self._emit(opcode, operands, (result,), attributes)
        return result

    def _emit(
        self, opcode: str, operands: Sequence[Value], results: Sequence[Value], attributes: Mapping[str, Attribute],
        regions: Sequence[Block] = (),
    ) -> None:  # fmt: skip
        self._blocks[-1].append(Op(opcode, tuple(operands), tuple(results), attributes, tuple(regions), self.span))

    def _begin(self) -> list[Op]:
        self._blocks.append([])
        return self._blocks[-1]

    def _end(self, ops: list[Op], arguments: Sequence[Value]) -> Block:
        assert self._blocks.pop() is ops
        return Block(tuple(arguments), tuple(ops))

    def _yield(self, values: Sequence[Value]) -> None:
        self._emit("yield", values, (), {})
