"""Evaluate what a value of a kernel is at one place: an expression of what the kernel was given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from tessera.core.base.dtypes import BY_NAME, DType, boolean, f16, f32, f64, i64
from tessera.core.graph.expr import Expr, Literal, Number, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.program.program import Op, Value
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Array, Scalar, Tile
from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along
from tessera.lowering.raising.reductions import reduced
from tessera.lowering.raising.refusals import NotRaised
from tessera.lowering.raising.scopes import At, LoopScope
from tessera.lowering.raising.terms import (
    ALWAYS,
    Conditions,
    Element,
    ReductionLeaf,
    SumOfProducts,
    Terms,
    computed,
    conjunction,
)

_POSITIONS: Final = ("add", "sub", "mul", "floordiv", "mod", "min", "max")
_REFUSED: Final = {
    "while": "a loop that runs until values say so has no derivative here",
    "shuffle": "lanes that exchange values are not raised",
    "alloc": "shared memory is not raised",
}


class MemoryContents(Protocol):
    """Describe the contents of arrays at a point of the kernel."""

    def read(self, array: Value, indices: Sequence[AffinePosition | Expr], op: Op, scope: LoopScope) -> Expr:
        """Return the element of an array as `op` sees it; 0 outside of it."""
        ...


class Loops(Protocol):
    """Collect the contents that loops leave."""

    def result(self, op: Op, number: int, at: At, scope: LoopScope) -> Element:
        """Return an element of the result `number` of a `for`."""
        ...


class Evaluator:
    """Works out elements; memory and loops are told afterwards, as they ask back."""

    memory: MemoryContents
    loops: Loops

    def __init__(self, terms: Terms, makers: Mapping[Value, Op], symbols: Mapping[str, int]) -> None:
        self.terms, self._makers, self._symbols = terms, makers, symbols

    def element(self, value: Value, at: At, scope: LoopScope) -> Element:
        """Return the element of a tile at a place, or a scalar at ()."""
        binding = scope.find(value)
        if binding is not None:
            return binding(at)
        key = (value, at)
        if key not in scope.known:
            scope.known[key] = self._made(value, at, scope)
        return scope.known[key]

    def expr(self, value: Value, at: At, scope: LoopScope) -> Expr:
        """Return an element as an expression."""
        return self.terms.expr(self.element(value, at, scope).value)

    def index(self, value: Value, scope: LoopScope) -> AffinePosition | Expr:
        """Return an integer as a position where it is one, else as an expression of type i64."""
        found = self.element(value, (), scope).value
        return found if isinstance(found, AffinePosition) else cast_expr(found, i64)

    def conditions(self, value: Value, at: At, scope: LoopScope) -> Conditions:
        """Return what makes a bool true."""
        op = None if scope.find(value) else self._makers.get(value)
        if op is not None and op.opcode == "and":
            return conjunction(c for each in op.operands for c in self.conditions(each, at, scope))
        if op is not None and op.opcode == "cmp":
            a, b = (self.element(each, at, scope).value for each in op.operands)
            if isinstance(a, AffinePosition) and isinstance(b, AffinePosition):
                compared = _compared(str(op.attributes["predicate"]), a, b)
                if compared is not None:
                    return compared
        return conjunction([self.expr(value, at, scope)])

    def _made(self, value: Value, at: At, scope: LoopScope) -> Element:
        op = self._makers.get(value)
        if op is None:
            raise NotRaised(f"{value.name or 'this value'} is known in no scope", value.span)
        if op.opcode in _REFUSED:
            raise NotRaised(_REFUSED[op.opcode], op.span)
        if op.opcode in ("if", "for"):
            return self._structured(op, op.results.index(value), at, scope)
        rule = _RULES.get(op.opcode)
        if rule is None:
            raise NotRaised(f"{op.opcode} is not raised", op.span)
        return rule(self, op, at, scope)

    def _structured(self, op: Op, number: int, at: At, scope: LoopScope) -> Element:
        if op.opcode == "for":
            return self.loops.result(op, number, at, scope)
        test = self.conditions(op.operands[0], (), scope)
        yes, no = (self.element(region.ops[-1].operands[number], at, scope) for region in op.regions)
        value = self.terms.chosen(test, self.terms.expr(yes.value), self.terms.expr(no.value))
        return Element(value, yes.exists | no.exists)

    # Rules, one an operation

    def const(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Return a number."""
        del at, scope
        dtype, value = op.result.type, op.attributes["value"]
        assert isinstance(dtype, Scalar)
        assert isinstance(value, bool | int | float)
        return Element(self.number(value, dtype.dtype))

    def number(self, value: Number, dtype: DType) -> AffinePosition | Expr:
        """Return a number of a dtype: a position where it is i64."""
        return AffinePosition(int(value)) if dtype == i64 else Literal(float(value) if dtype.is_float else value, dtype)

    def dim(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Return the extent that a symbol stands for."""
        del at, scope
        return Element(AffinePosition(self._symbols[str(op.attributes["symbol"])]))

    def elementwise(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Apply an operation to elements, to positions where it gives one."""
        parts = [self.element(each, at, scope) for each in op.operands]
        exists = conjunction(c for part in parts for c in part.exists)
        positions = [part.value for part in parts if isinstance(part.value, AffinePosition)]
        if len(positions) == len(parts) == 2 and op.opcode in _POSITIONS:
            try:
                return Element(_arithmetic(op.opcode, positions[0], positions[1]), exists)
            except NotAffine:
                pass
        exprs = [self.terms.expr(part.value) for part in parts]
        return Element(computed(op.opcode, *exprs), exists)

    def cmp(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Compare; what is known of positions is worked out."""
        a, b = (self.element(each, at, scope) for each in op.operands)
        exists = conjunction((*a.exists, *b.exists))
        predicate = str(op.attributes["predicate"])
        if isinstance(a.value, AffinePosition) and isinstance(b.value, AffinePosition):
            compared = _compared(predicate, a.value, b.value)
            if compared is not None:
                return Element(self.terms.holds(compared) or Literal(True, boolean), exists)
        value = computed("cmp", self.terms.expr(a.value), self.terms.expr(b.value), predicate=predicate)
        return Element(value, exists)

    def select(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Choose between two values."""
        condition, left, right = op.operands
        place = at if isinstance(condition.type, Tile) else ()
        test = self.conditions(condition, place, scope)
        known = self.element(condition, place, scope).exists
        a, b = (self.element(each, at, scope) for each in (left, right))
        value = self.terms.chosen(test, self.terms.expr(a.value), self.terms.expr(b.value))
        if a.exists == b.exists:
            return Element(value, known | a.exists)
        true = Literal(True, boolean)
        either = self.terms.chosen(test, self.terms.holds(a.exists) or true, self.terms.holds(b.exists) or true)
        return Element(value, conjunction((*known, either)))

    def cast(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Convert."""
        part, kind = self.element(op.operands[0], at, scope), op.result.type
        assert isinstance(kind, Scalar | Tile)
        if isinstance(part.value, AffinePosition) and kind.dtype == i64:
            return part
        return Element(cast_expr(self.terms.expr(part.value), kind.dtype), part.exists)

    def read(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Read one element of an array."""
        del at
        array, *indices = op.operands
        return Element(self.memory.read(array, [self.index(each, scope) for each in indices], op, scope))

    def load(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Load a tile: elements outside of the array do not exist."""
        indices = self.tile_indices(op, op.operands[1:], at, scope)
        exists = conjunction(c for each in self.inside(op.operands[0], indices) for c in each)
        return Element(self.memory.read(op.operands[0], indices, op, scope), exists)

    def tile_indices(self, op: Op, starts: Sequence[Value], at: At, scope: LoopScope) -> list[AffinePosition | Expr]:
        """Return the indices of the element `at` of a tile that starts there."""
        dropped = op.attributes.get("dropped") or ()
        assert isinstance(dropped, tuple)
        rest = iter(at)
        made: list[AffinePosition | Expr] = []
        for axis, start in enumerate(starts):
            offset = AffinePosition() if axis in dropped else next(rest)
            if isinstance(start.type, Tile):  # a gather: the tile says where
                found = self.element(start, (offset,), scope)
                place = self.terms.expr(found.value)
                made.append(
                    found.value if not found.exists else self.terms.chosen(found.exists, place, Literal(-1, i64))
                )
                continue
            begin = self.index(start, scope)
            if isinstance(begin, AffinePosition):
                made.append(begin.plus(offset))
            else:
                made.append(begin if offset == AffinePosition() else apply("add", begin, self.terms.expr(offset)))
        return made

    def inside(self, array: Value, indices: Sequence[AffinePosition | Expr]) -> list[Conditions]:
        """Return when indices lie inside of an array."""
        assert isinstance(array.type, Array)
        return [self._within(index, self.extent(n)) for index, n in zip(indices, array.type.shape, strict=True)]

    def extent(self, extent: int | str) -> int:
        """Return an extent as a number."""
        return self._symbols[extent] if isinstance(extent, str) else extent

    def _within(self, index: AffinePosition | Expr, extent: int) -> Conditions:
        if isinstance(index, AffinePosition):
            return conjunction([index, index.times(-1).add(extent - 1)])
        low = apply("cmp", index, Literal(0, i64), predicate="ge")
        return conjunction([low, apply("cmp", index, Literal(extent, i64), predicate="lt")])

    def valid(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Return whether an element exists."""
        exists = self.element(op.operands[0], at, scope).exists
        return Element(self.terms.holds(exists) or Literal(True, boolean))

    def fill(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Replace what does not exist."""
        part = self.element(op.operands[0], at, scope)
        other = self.expr(op.operands[1], (), scope)
        return Element(self.terms.chosen(part.exists, self.terms.expr(part.value), other))

    def full(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Return the scalar everywhere."""
        del at
        return self.element(op.operands[0], (), scope)

    def arange(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Count from the start."""
        start = self.index(op.operands[0], scope)
        if isinstance(start, AffinePosition):
            return Element(start.plus(at[0]))
        return Element(apply("add", start, self.terms.expr(at[0])))

    def broadcast(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Repeat along axes of extent 1."""
        kind = op.operands[0].type
        assert isinstance(kind, Tile)
        place = tuple(AffinePosition() if n == 1 else p for n, p in zip(kind.shape, at, strict=True))
        return self.element(op.operands[0], place, scope)

    def transpose(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Permute axes."""
        order = op.attributes["permutation"]
        assert isinstance(order, tuple)
        place = dict(zip(order, at, strict=True))
        return self.element(op.operands[0], tuple(place[axis] for axis in range(len(at))), scope)

    def reshape(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Read the element with the same number in row-major order."""
        before, after = op.operands[0].type, op.result.type
        assert isinstance(before, Tile)
        assert isinstance(after, Tile)
        linear = AffinePosition()
        for extent, place in zip(after.shape, at, strict=True):
            linear = linear.times(extent).plus(place)
        made: list[AffinePosition] = []
        try:
            for extent in reversed(before.shape):
                made.append(linear.remainder(extent))
                linear = linear.quotient(extent)
        except NotAffine:
            raise NotRaised("a reshape that mixes axes is not raised", op.span) from None
        return self.element(op.operands[0], tuple(reversed(made)), scope)

    def reduce(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Reduce a tile along an axis, or all of it; what does not exist is left out."""
        (tile,) = op.operands
        assert isinstance(tile.type, Tile)
        axis = op.attributes["axis"]
        removed = range(len(tile.type.shape)) if axis is None else [int(str(axis)) % len(tile.type.shape)]
        axes = {n: self.terms.axis(tile.type.shape[n]) for n in removed}
        rest = iter(at)
        place = tuple(along(axes[n]) if n in axes else next(rest) for n in range(len(tile.type.shape)))
        part = self.element(tile, place, scope)
        mine = self._along(part.exists, tuple(axes.values()))
        kept = ALWAYS if len(axes) == len(tile.type.shape) else part.exists - mine
        body = self.terms.expr(part.value)
        made = self._reduced(str(op.attributes["kind"]), body, mine if kept else part.exists, tuple(axes.values()))
        return Element(made, kept)

    def _along(self, conditions: Conditions, axes: tuple[Axis, ...]) -> Conditions:
        """Return the conditions that vary along axes."""
        return frozenset(c for c in conditions if not self.terms.free_of_conditions(frozenset({c})).isdisjoint(axes))

    def _reduced(self, kind: str, body: Expr, conditions: Conditions, axes: tuple[Axis, ...]) -> Expr:
        dtype = body.dtype
        short = dtype.is_float and dtype.bits < f32.bits
        wide = cast_expr(body, f32) if short else body
        return cast_expr(reduced(self.terms, ReductionLeaf(kind, wide, conditions, axes)), dtype)

    def softmax(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Exponentials of distances from the greatest, times the reciprocal of their sum."""
        (tile,) = op.operands
        assert isinstance(tile.type, Tile)
        number = int(str(op.attributes["axis"])) % len(tile.type.shape)
        axis = self.terms.axis(tile.type.shape[number])
        here, each = (
            self.element(tile, (*at[:number], p, *at[number + 1 :]), scope) for p in (at[number], along(axis))
        )
        dtype = tile.type.dtype
        working = f64 if dtype == f64 else f32
        x, y = (cast_expr(self.terms.expr(part.value), working) for part in (here, each))
        most = self._reduced("max", y, each.exists, (axis,))
        total = self._reduced("sum", apply("exp", apply("sub", y, most)), each.exists, (axis,))
        scale = apply("div", Literal(1.0, working), total)
        value = apply("mul", apply("exp", apply("sub", x, most)), scale)
        return Element(cast_expr(value, dtype), here.exists)

    def dot(self, op: Op, at: At, scope: LoopScope) -> Element:
        """Sum products over the second axis of the first factor."""
        a, b = op.operands[:2]
        assert isinstance(a.type, Tile)
        assert isinstance(op.result.type, Tile)
        axis = self.terms.axis(a.type.shape[1])
        left, right = self.element(a, (at[0], along(axis)), scope), self.element(b, (along(axis), at[1]), scope)
        conditions = conjunction((*left.exists, *right.exists))
        rows = conditions - self._along(conditions, (axis,))  # a sum of nothing is 0: rows are among them
        result = op.result.type.dtype
        x, y = self.terms.expr(left.value), self.terms.expr(right.value)
        if x.dtype.is_float and x.dtype.bits < f16.bits:
            x, y = cast_expr(x, f32), cast_expr(y, f32)
        total = BY_NAME["f64"] if x.dtype == f64 else f32 if x.dtype.is_float else result
        if x.dtype.is_integer:
            x, y = cast_expr(x, total), cast_expr(y, total)
        compute = str(op.attributes.get("compute") or "")
        leaf = SumOfProducts((x, y), conditions, (axis,), total, bool(op.attributes.get("exact")), compute)
        made = reduced(self.terms, leaf)
        if len(op.operands) == 2:
            return Element(cast_expr(made, result), rows)
        acc = self.element(op.operands[2], at, scope)
        summed = apply("add", cast_expr(self.terms.expr(acc.value), total), made)
        return Element(cast_expr(summed, result), acc.exists)


def _arithmetic(opcode: str, a: AffinePosition, b: AffinePosition) -> AffinePosition:
    """Return a position made of two.  Raises NotAffine."""
    if opcode in ("add", "sub"):
        return a.plus(b, 1 if opcode == "add" else -1)
    if opcode in ("min", "max"):
        low, high = (a, b) if a.plus(b, -1).high <= 0 else (b, a)
        if low.plus(high, -1).high > 0:
            raise NotAffine
        return low if opcode == "min" else high
    if opcode == "mul" and a.number is not None:
        a, b = b, a
    number = b.number
    if number is None or (opcode != "mul" and number <= 0):
        raise NotAffine
    return {"mul": a.times, "floordiv": a.quotient, "mod": a.remainder}[opcode](number)


def _compared(predicate: str, a: AffinePosition, b: AffinePosition) -> Conditions | None:
    """Return a comparison as conditions, where it is a conjunction."""
    below, above = b.plus(a, -1), a.plus(b, -1)
    found = {"lt": [below.add(-1)], "le": [below], "gt": [above.add(-1)], "ge": [above], "eq": [below, above]}
    return conjunction(found[predicate]) if predicate in found else None


_Rule = Callable[[Evaluator, Op, At, LoopScope], Element]
_RULES: Final[Mapping[str, _Rule]] = {
    "const": Evaluator.const, "dim": Evaluator.dim, "cmp": Evaluator.cmp, "select": Evaluator.select,
    "cast": Evaluator.cast, "read": Evaluator.read, "load": Evaluator.load, "gather": Evaluator.load,
    "valid": Evaluator.valid, "fill": Evaluator.fill, "full": Evaluator.full, "arange": Evaluator.arange,
    "broadcast": Evaluator.broadcast, "transpose": Evaluator.transpose, "reshape": Evaluator.reshape,
    "reduce": Evaluator.reduce, "softmax": Evaluator.softmax, "dot": Evaluator.dot,
    **dict.fromkeys((*BINARY, *UNARY, "fma"), Evaluator.elementwise),
}  # fmt: skip
