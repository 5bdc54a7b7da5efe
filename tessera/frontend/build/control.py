"""Branches and loops: what they change becomes results of the operation."""

import ast
from collections.abc import Callable, Sequence

from tessera.core.base import dtypes
from tessera.core.base.dtypes import promote
from tessera.core.base.source import Span
from tessera.core.errors.catalog import (
    BranchMismatch,
    DeadBreak,
    DependentTrips,
    TypeMismatch,
    UnstableLoopType,
    UnsupportedLoop,
    UnsupportedSyntax,
)
from tessera.core.program.program import Block, Op, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile, Type
from tessera.frontend.base.bindings import SharedHole, Undefined, items_of
from tessera.frontend.base.builder import default_dtype, dtype_of_value, shape_of, with_dtype
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe
from tessera.frontend.build.expressions import Evaluator, unify_buffers
from tessera.frontend.build.loops import Trip, assigned_names, breaks, iteration

_ALIVE = "$alive"
_ATTEMPTS = 8
_IN_ORDER = "leave parallel=True out, and the trips run in order"
Run = Callable[[Sequence[ast.stmt]], None]


class Control:
    """Builds `if`, `for` and `while`; `run` builds a list of statements in the current scope."""

    def __init__(self, context: Context, evaluator: Evaluator, run: Run) -> None:
        self.context = context
        self.evaluator = evaluator
        self.run = run
        self._condition: list[Value] = []  # what the condition of the innermost `while` being built yields first

    # Branches

    def branch(self, node: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        """`if`: a constant condition chooses now; otherwise both sides are built and what they set is merged."""
        test, span = self.evaluator.evaluate(node.test), self.context.span(node.test)
        if not isinstance(test, Value):
            plain = isinstance(test, str | None) or items_of(test) is not None
            operand = None if plain else self.context.builder.operand(test, span)
            if not isinstance(operand, Value):
                self.run(body if (test if plain else operand) else orelse)
                return
            test = operand
        condition = self.context.builder.truth(test, span)
        if shape_of(condition):
            raise UnsupportedSyntax(
                f"a condition of {describe(test)}", span, "choose element by element with tile.where"
            )
        scopes: list[dict[str, object]] = []
        sides: list[list[Op]] = []
        before = dict(self.context.scope)
        for statements in (body, orelse):
            self.context.scope = dict(before)
            with self.context.builder.block() as ops:
                self.run(statements)
            scopes.append(self.context.scope)
            sides.append(ops)
        self.context.scope = dict(before)
        self._merge(condition, scopes, sides, self.context.span(node))

    def _merge(self, test: Value, scopes: list[dict[str, object]], sides: list[list[Op]], span: Span) -> None:
        then, other = scopes
        names = [n for n in dict.fromkeys((*then, *other)) if then.get(n) is not other.get(n)]
        merged: list[tuple[str, Type]] = []
        for name in names:
            kind = self._common(name, then, other, span)
            if kind is not None:
                merged.append((name, kind))
        blocks: list[Block] = []
        for scope, ops in zip(scopes, sides, strict=True):
            with self.context.builder.block() as tail:
                values = [self._as(scope[name], kind, span) for name, kind in merged]
                self.context.builder.emit("yield", values, (), span)
            blocks.append(Block((), (*ops, *tail)))
        results = self.context.builder.emit("if", (test,), [Value(k, n, span) for n, k in merged], span, blocks)
        for (name, _), result in zip(merged, results, strict=True):
            self.context.scope[name] = result

    def _common(self, name: str, then: dict[str, object], other: dict[str, object], span: Span) -> Type | None:
        """The type of `name` after the branch, or None where it is left to its user to complain (or unchanged)."""
        if (
            name not in then
            or name not in other
            or isinstance(then[name], Undefined)
            or isinstance(other[name], Undefined)
        ):
            self.context.scope[name] = Undefined(f"{name} is set on one path only", span)
            return None
        a, b = then[name], other[name]
        if isinstance(a, SharedHole) or isinstance(b, SharedHole):
            self.context.scope[name] = unify_buffers(self.context, a, b, span)
            return None
        if isinstance(a, bool | int | float) and type(a) is type(b) and a == b:
            self.context.scope[name] = a
            return None
        kind = join(self.context, a, b)
        if kind is None:
            raise BranchMismatch(
                f"{name} is {describe(a)} on one path and {describe(b)} on the other", span, "use two names"
            )
        return kind

    def _as(self, binding: object, kind: Type, span: Span) -> Value:
        """`binding` as a value of type `kind`, which `join` found for it."""
        if isinstance(kind, Shared | Array):
            assert isinstance(binding, Value)
            return binding
        made = self.context.builder.as_value(binding, span, kind.dtype)
        return self.context.builder.broadcast_to(made, kind.shape, span) if isinstance(kind, Tile) else made

    # Loops

    def stop_loop(self, span: Span) -> None:
        """`break`: the loop's hidden variable ends it."""
        if _ALIVE not in self.context.scope:
            raise DeadBreak("break outside a loop of a range", span, "break leaves a for or while loop")
        self.context.scope[_ALIVE] = False

    def for_loop(self, node: ast.For) -> None:
        """`for` over a range, blocks, or a tuple (unrolled)."""
        if node.orelse:
            raise UnsupportedSyntax("else after a loop", self.context.span(node.orelse[0]), "use a flag")
        plan = iteration(self.evaluator, node)
        if isinstance(plan, list):
            self._unrolled(node, plan)
            return
        self._nest(node, list(plan.trips), plan.finish)

    def _unrolled(self, node: ast.For, items: list[object]) -> None:
        if breaks(node.body):
            raise UnsupportedSyntax("break in a loop over a list", self.context.span(node), "loop over a range")
        for item in items:
            self._set_targets(node.target, item)
            self.context.loops += 1
            self.run(node.body)
            self.context.loops -= 1

    def _nest(self, node: ast.For, trips: list[Trip], finish: Callable[[], None] | None) -> None:
        """Nested loops, one a trip; the innermost one runs the body."""
        trip, rest = trips[0], trips[1:]

        def body(index: Value) -> None:
            self._set_targets(trip.target, trip.bind(index))
            if rest:
                if trip.before_inner is not None:
                    trip.before_inner()
                self._nest(node, rest, None)
                if trip.after_inner is not None:
                    trip.after_inner()
            else:
                self.run(node.body)

        names = assigned_names(node.body) | trip.hidden
        if not rest and breaks(node.body):
            if trip.parallel:
                raise DependentTrips("a break decides which trips there are", self.context.span(node.iter), _IN_ORDER)
            self._breaking(trip, names, body, self.context.span(node))
        else:
            self._counted(trip, names, body, self.context.span(node))
        if finish is not None:
            finish()

    def _counted(self, trip: Trip, names: set[str], body: Callable[[Value], None], span: Span) -> None:
        builder = self.context.builder
        bounds = [builder.index(b, span) for b in (trip.lower, trip.upper, trip.step)]

        def build(carried: dict[str, Value]) -> tuple[Value, ...]:
            index = Value(Scalar(dtypes.i64), trip.name, span)
            body(index)
            return (index, *carried.values())

        names_types, initial, blocks = self._fixpoint(names, [build], span)
        results = builder.emit(
            "for", (*bounds, *initial), [Value(k, n, span) for n, k in names_types], span, blocks,
            kind=trip.kind, prefetch=trip.prefetch, **({} if trip.parallel is None else {"parallel": trip.parallel}),
        )  # fmt: skip
        self._after(names_types, results)

    def _breaking(self, trip: Trip, names: set[str], body: Callable[[Value], None], span: Span) -> None:
        """A range with `break`: while alive and index < upper."""
        builder, scope = self.context.builder, self.context.scope
        upper, step = builder.index(trip.upper, span), builder.index(trip.step, span)
        counter = f"${trip.name}"
        outer = scope.get(_ALIVE)
        scope[counter], scope[_ALIVE] = builder.index(trip.lower, span), True

        def inside() -> None:
            index = self.context.scope[counter]
            assert isinstance(index, Value)
            body(index)
            self.context.scope[counter] = builder.binary("add", index, step, span)

        def test() -> Value:
            more = builder.compare("lt", self.context.scope[counter], upper, span)
            return builder.as_value(builder.binary("and", self.context.scope[_ALIVE], more, span), span, dtypes.boolean)

        self._conditional(names | {counter, _ALIVE}, test, inside, span)
        for hidden in (counter, _ALIVE):
            self.context.scope.pop(hidden, None)
        if outer is not None:
            self.context.scope[_ALIVE] = outer

    def while_loop(self, node: ast.While) -> None:
        """`while`, with or without break."""
        span, builder = self.context.span(node.test), self.context.builder
        if node.orelse:
            raise UnsupportedSyntax("else after a loop", self.context.span(node.orelse[0]), "use a flag")
        outer = self.context.scope.get(_ALIVE)
        has_break = breaks(node.body)
        if has_break:
            self.context.scope[_ALIVE] = True

        def test() -> Value:
            value = self.evaluator.evaluate(node.test)
            condition = builder.truth(value, span)
            if shape_of(condition):
                either = "write tile.max(...) for any of its elements, tile.min(...) for all of them"
                raise TypeMismatch(f"a loop's condition is one truth, and this is {describe(value)}", span, either)
            if not has_break:
                return condition
            return builder.as_value(builder.binary("and", self.context.scope[_ALIVE], condition, span), span)

        names = assigned_names(node.body) | ({_ALIVE} if has_break else set[str]())
        self._conditional(names, test, lambda: self.run(node.body), self.context.span(node))
        if has_break:
            self.context.scope.pop(_ALIVE, None)
        if outer is not None:
            self.context.scope[_ALIVE] = outer

    def _conditional(self, names: set[str], test: Callable[[], Value], body: Callable[[], None], span: Span) -> None:
        def condition(carried: dict[str, Value]) -> tuple[Value, ...]:
            self._condition = [test()]
            return tuple(carried.values())

        def run(carried: dict[str, Value]) -> tuple[Value, ...]:
            body()
            return tuple(carried.values())

        names_types, initial, blocks = self._fixpoint(names, [condition, run], span)
        results = self.context.builder.emit("while", initial, [Value(k, n, span) for n, k in names_types], span, blocks)
        self._after(names_types, results)

    def _fixpoint(
        self, names: set[str], regions: Sequence[Callable[[dict[str, Value]], tuple[Value, ...]]], span: Span
    ) -> tuple[list[tuple[str, Type]], list[Value], list[Block]]:
        """Build the regions again and again until the carried variables keep their types.

        The first region of two is a `while`'s condition: its yield starts with `self._condition`.
        """
        before = dict(self.context.scope)
        types = self._first_guess(names, before)
        for _ in range(_ATTEMPTS):
            blocks, after = self._attempt(types, regions, before, span)
            joined = self._join_trip(types, before, after, span)
            # A literal takes the type of what it meets on its way; where it met nothing, what is carried has its own.
            settled = {name: (kind, False) for name, (kind, _) in joined.items()}
            if joined == types == settled:
                self.context.scope = dict(before)
                for name in names - set(types):
                    self._leave_unset(name, before, after, span)
                initial = [self._as(before[name], kind, span) for name, (kind, _) in types.items()]
                return [(n, k) for n, (k, _) in types.items()], initial, blocks
            types = settled if joined == types else joined
        raise UnstableLoopType("a variable's type changes from trip to trip", span, "give it a dtype before the loop")

    def _first_guess(self, names: set[str], before: dict[str, object]) -> dict[str, tuple[Type, bool]]:
        guess: dict[str, tuple[Type, bool]] = {}
        for name in sorted(names):
            binding = before.get(name)
            if isinstance(binding, bool | int | float):
                guess[name] = (Scalar(default_dtype(binding)), True)
            elif isinstance(binding, Value) and not isinstance(binding.type, Array):
                guess[name] = (binding.type, binding in self.context.builder.weak)
        return guess

    def _attempt(
        self,
        types: dict[str, tuple[Type, bool]],
        regions: Sequence[Callable[[dict[str, Value]], tuple[Value, ...]]],
        before: dict[str, object],
        span: Span,
    ) -> tuple[list[Block], dict[str, object]]:
        builder = self.context.builder
        blocks: list[Block] = []
        for number, region in enumerate(regions):
            carried = {name: Value(kind, name, span) for name, (kind, _) in types.items()}
            builder.weak.update(v for v, (_, weak) in zip(carried.values(), types.values(), strict=True) if weak)
            self.context.scope = {**before, **carried}
            self.context.loops += 1
            with builder.block() as ops:
                arguments = region(carried)
                is_condition = len(regions) > 1 and number == 0
                yielded = [self._carry_out(name, kind, span) for name, (kind, _) in types.items()]
                builder.emit("yield", (self._condition if is_condition else []) + yielded, (), span)
            self.context.loops -= 1
            blocks.append(Block(arguments, tuple(ops)))
        return blocks, self.context.scope

    def _carry_out(self, name: str, kind: Type, span: Span) -> Value:
        """The value to carry on: of type `kind` where it fits, else as it is (another attempt follows)."""
        binding = self.context.scope[name]
        if isinstance(binding, SharedHole):
            # Either this tells the buffer's type, or a skipped statement left it unknown in this attempt.
            unify_buffers(self.context, binding, Value(kind, name, span), span)
            return Value(kind, name, span)
        joined = join(self.context, Value(kind, name, span), binding)
        if joined == kind:
            return self._as(binding, kind, span)
        return binding if isinstance(binding, Value) else self.context.builder.as_value(binding, span)

    def _join_trip(
        self, types: dict[str, tuple[Type, bool]], before: dict[str, object], after: dict[str, object], span: Span
    ) -> dict[str, tuple[Type, bool]]:
        joined: dict[str, tuple[Type, bool]] = {}
        for name, (kind, weak) in types.items():
            binding = after[name]
            if isinstance(binding, SharedHole):
                unify_buffers(self.context, binding, before[name], span)
            model = Value(kind, name, span)
            if weak:
                self.context.builder.weak.add(model)
            common = join(self.context, model, binding)
            if common is None or (isinstance(kind, Tile) and not _is_tile(binding)):
                raise UnstableLoopType(
                    f"{name} is {describe(model)} at the start of a trip and {describe(binding)} at its end",
                    span,
                    "give it its final shape before the loop (tile.zeros(...))",
                )
            still_weak = weak and (not isinstance(binding, Value) or binding in self.context.builder.weak)
            joined[name] = (_widened(common) if weak and not still_weak else common, still_weak)
        for name, binding in before.items():
            if isinstance(binding, SharedHole) and after.get(name) is not binding:
                unify_buffers(self.context, binding, after[name], span)
        return joined

    def _leave_unset(self, name: str, before: dict[str, object], after: dict[str, object], span: Span) -> None:
        if name not in after:
            return
        if name not in before or isinstance(before[name], Undefined):
            self.context.scope[name] = Undefined(f"{name} has a value only inside the loop, which may not run", span)
        elif after[name] is not before[name] and not isinstance(before[name], SharedHole):
            raise UnstableLoopType(
                f"{name} is {describe(before[name])} before the loop and {describe(after[name])} after a trip",
                span,
                "only numbers, tiles and buffers can change in a loop",
            )

    def _after(self, names_types: list[tuple[str, Type]], results: Sequence[Value]) -> None:
        for (name, _), result in zip(names_types, results, strict=True):
            self.context.scope[name] = result

    def _set_targets(self, target: ast.expr | None, value: object) -> None:
        if target is None:
            return
        if isinstance(target, ast.Name):
            self.context.scope[target.id] = value
            self.context.saw(self.context.span(target), value)
            return
        parts = items_of(value)
        if isinstance(target, ast.Tuple) and parts is not None and len(target.elts) == len(parts):
            for item, part in zip(target.elts, parts, strict=True):
                self._set_targets(item, part)
            return
        raise UnsupportedLoop(
            "the loop's variables do not fit what it gives", self.context.span(target), "use one name"
        )


def join(context: Context, a: object, b: object) -> Type | None:
    """The type that two bindings of one name have in common, or None."""
    kinds = [x.type if isinstance(x, Value) else _number_type(x) for x in (a, b)]
    if kinds[0] is None or kinds[1] is None:
        return None
    if kinds[0] == kinds[1]:
        return kinds[0]
    x, y = kinds
    if isinstance(x, Shared | Array) or isinstance(y, Shared | Array) or x is None or y is None:
        return None
    dtype = _join_dtype(context, a, b)
    if isinstance(x, Tile) and isinstance(y, Tile) and x.shape != y.shape:
        return None
    return with_dtype(x if isinstance(x, Tile) else y, dtype)


def _join_dtype(context: Context, a: object, b: object) -> dtypes.DType:
    weak = context.builder.weak
    loose = [not isinstance(v, Value) or v in weak for v in (a, b)]
    types = [dtype_of_value(v) if isinstance(v, Value) else default_dtype(v) for v in (a, b)]  # type: ignore[arg-type]
    if loose[0] == loose[1]:
        return promote(*types)
    literal, strong = (types[0], types[1]) if loose[0] else (types[1], types[0])
    return strong if strong.is_float or not literal.is_float else literal


def _widened(kind: Type) -> Type:
    """The type of a number that begins as a literal and is carried: f32 for shorter floats.

    A sum of ones in bf16 stops at 256, and `acc = 0.0` says nothing of bf16.
    """
    short = isinstance(kind, Scalar) and kind.dtype.is_float and kind.dtype.bits < dtypes.f32.bits
    return Scalar(dtypes.f32) if short else kind


def _is_tile(binding: object) -> bool:
    return isinstance(binding, Value) and isinstance(binding.type, Tile)


def _number_type(binding: object) -> Type | None:
    return Scalar(default_dtype(binding)) if isinstance(binding, bool | int | float) else None
