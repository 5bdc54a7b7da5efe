"""Iterables of `for` loops: ranges, blocks of arrays, the blocks of a matrix product, tuples."""

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tessera.core.base.source import Span
from tessera.core.errors.catalog import BadAxis, DotShape, UnsupportedLoop, WrongArguments, ZeroStep
from tessera.core.program.program import Value
from tessera.core.program.types import Array
from tessera.frontend.base import subscripts
from tessera.frontend.base.bindings import BlockIndex, Region, items_of
from tessera.frontend.base.builder import memory_type
from tessera.frontend.base.context import Context, MmaLoop
from tessera.frontend.base.describe import describe
from tessera.frontend.build.expressions import Evaluator
from tessera.frontend.language.namespace import Intrinsic
from tessera.frontend.operations.tile_operations import accumulate_zero

_T = TypeVar("_T")
_DEFAULT_BLOCKS = {"BM": 128, "BN": 128, "BK": 32}


@dataclass
class Trip:
    """One loop: its bounds, the names it sets, and what its index means to the body.

    parallel: what the user says of its trips: independent, in order, or nothing
    """

    name: str
    lower: object
    upper: object
    step: object
    target: ast.expr | None
    bind: Callable[[Value], object]
    kind: str = "range"
    prefetch: int = 0
    parallel: bool | None = None
    hidden: set[str] = field(default_factory=set[str])
    before_inner: Callable[[], None] | None = None
    after_inner: Callable[[], None] | None = None


@dataclass
class Iteration:
    """Nested trips, outermost first; `finish` runs after the outermost."""

    trips: Sequence[Trip]
    finish: Callable[[], None] | None = None


def iteration(evaluator: Evaluator, node: ast.For) -> Iteration | list[object]:
    """Return what `node` loops over: nested loops, or the items of a tuple to unroll."""
    context, span = evaluator.context, evaluator.context.span(node.iter)
    if isinstance(node.iter, ast.Call):
        callee = evaluator.evaluate(node.iter.func)
        args = [evaluator.evaluate(a) for a in node.iter.args]
        keywords = {k.arg or "**": evaluator.evaluate(k.value) for k in node.iter.keywords}
        keywords |= {
            k: v for k, v in context.constants.items() if k in keywords or (k in _DEFAULT_BLOCKS and _is(callee, "mma"))
        }
        if callee is range:
            return Iteration([_python_range(context, node, args, span)])
        if _is(callee, "range"):
            return Iteration([_call(_tile_range, "tile.range", context, node, span, args, keywords)])
        if _is(callee, "mma"):
            return _call(_mma, "tile.mma", context, node, span, args, keywords)
        items = evaluator.call(callee, args, keywords, span)
    else:
        items = evaluator.evaluate(node.iter)
    found = items_of(items)
    if found is not None:
        return found
    raise UnsupportedLoop(
        f"a loop runs over a range or a tuple, and this is {describe(items)}", span, "for i in range(n):"
    )


def _is(callee: object, name: str) -> bool:
    return isinstance(callee, Intrinsic) and callee.name == name


def _call(
    handler: Callable[..., _T], spelling: str, context: Context, node: ast.For, span: Span,
    args: list[object], keywords: dict[str, object],
) -> _T:  # fmt: skip
    try:
        bound = inspect.signature(handler).bind(context, node, span, *args, **keywords)
    except TypeError as error:
        shown = ", ".join(list(inspect.signature(handler).parameters)[3:])
        raise WrongArguments(f"{spelling}: {error}", span, f"it takes ({shown})") from None
    return handler(*bound.args, **bound.kwargs)


def _python_range(context: Context, node: ast.For, args: list[object], span: Span) -> Trip:
    if not 1 <= len(args) <= 3:
        raise WrongArguments(f"range takes 1 to 3 numbers, not {len(args)}", span, "range(start, stop, step)")
    lower, upper = (0, args[0]) if len(args) == 1 else (args[0], args[1])
    step = args[2] if len(args) > 2 else 1
    name = node.target.id if isinstance(node.target, ast.Name) else "i"
    if isinstance(step, int) and step < 0:
        return _downwards(context, node, name, lower, upper, step, span)
    _check_step(step, span)
    return Trip(name, lower, upper, step, node.target, lambda index: index)


def _downwards(context: Context, node: ast.For, name: str, lower: object, upper: object, step: int, span: Span) -> Trip:
    """range(a, b, -s) counts trips upwards from 0 and computes the index from them."""
    builder = context.builder
    distance = builder.binary("sub", lower, upper, span)
    trips = builder.binary("floordiv", builder.binary("add", distance, -step - 1, span), -step, span)
    start = builder.index(lower, span)

    def bind(index: Value) -> object:
        return builder.binary("add", start, builder.binary("mul", index, step, span), span)

    return Trip(f"{name}_trip", 0, trips, 1, node.target, bind)


def _check_step(step: object, span: Span) -> None:
    if isinstance(step, int) and step <= 0:
        raise ZeroStep(f"a step of {step}", span, "a step is at least 1")


def _tile_range(  # noqa: PLR0913 - these are the document's own parameters
    context: Context, node: ast.For, span: Span, over: object, stop: object = None, *,
    axis: object = 0, step: object = 1, prefetch: object = 0, parallel: object = None,
) -> Trip:  # fmt: skip
    """`tile.range(n, step=)` gives starts; `tile.range(X, axis=, step=)` gives blocks of an axis."""
    if not isinstance(parallel, bool | None):
        hint = "parallel=True: no two trips touch one element that either writes; parallel=False: run them in order"
        raise WrongArguments(f"tile.range: parallel is {describe(parallel)}", span, hint)
    builder = context.builder
    width = builder.fixed(step, "the step of tile.range", span)
    _check_step(width, span)
    stages = builder.fixed(prefetch, "prefetch", span)
    if "stages" in context.constants and prefetch:
        stages = builder.fixed(context.constants["stages"], "stages", span)
    name = node.target.id if isinstance(node.target, ast.Name) else "block"
    if not (isinstance(over, Value) and isinstance(over.type, Array)):
        lower, upper = (0, over) if stop is None else (over, stop)
        return Trip(name, lower, upper, width, node.target, lambda index: index, "tile", stages, parallel)
    shape = over.type.shape
    number = builder.fixed(axis, "the axis", span)
    if not -len(shape) <= number < len(shape):
        raise BadAxis(f"{over.name} has no axis {number}", span, f"it has {len(shape)} axes")
    number %= len(shape)
    upper = subscripts.extent_value(builder, shape[number], span)
    return Trip(
        name, 0, upper, width, node.target, lambda index: BlockIndex(index, width, number), "tile", stages, parallel
    )  # fmt: skip


def _mma(  # noqa: PLR0913 - these are the documents' own parameters
    context: Context, node: ast.For, span: Span, a: object, b: object, c: object, *,
    BM: object = 128, BN: object = 128, BK: object = 32,
) -> Iteration:  # fmt: skip
    """`for m, n, k in tile.mma(A, B, C, BM=, BN=, BK=)`: C[m, n] = sum over k of A[m, k] B[k, n]."""
    builder = context.builder
    arrays: list[Value] = []
    for array, name in ((a, "A"), (b, "B"), (c, "C")):
        if not (isinstance(array, Value) and isinstance(array.type, Array) and len(array.type.shape) == 2):
            raise DotShape(
                f"tile.mma needs matrices, and {name} is {describe(array)}", span, "give three rank-2 arrays"
            )
        arrays.append(array)
    left, right, out = arrays
    subscripts.check_writable(context, out, span)
    blocks = [builder.fixed(x, n, span) for x, n in ((BM, "BM"), (BN, "BN"), (BK, "BK"))]
    for size in blocks:
        _check_step(size, span)
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else []
    if len(targets) != 3:
        raise UnsupportedLoop("tile.mma gives three blocks", context.span(node.target), "for m, n, k in tile.mma(...)")
    return _mma_trips(context, span, left, right, out, blocks, targets)


def _mma_trips(
    context: Context, span: Span, left: Value, right: Value, out: Value, blocks: list[int], targets: list[ast.expr]
) -> Iteration:
    builder = context.builder
    rows, depth = memory_type(left).shape
    inner, columns = memory_type(right).shape
    for a, b in ((depth, inner), (rows, memory_type(out).shape[0]), (columns, memory_type(out).shape[1])):
        context.require_equal(a, b, span)
    accumulator = f"$acc{len(context.mma)}"
    started: dict[int, BlockIndex] = {}

    def block(axis: int, size: int) -> Callable[[Value], object]:
        def bind(index: Value) -> BlockIndex:
            made = BlockIndex(index, size, axis)
            started[axis] = made
            return made

        return bind

    def begin() -> None:
        zero = accumulate_zero(context, left, right, (blocks[0], blocks[1]), span)
        context.scope[accumulator] = zero
        context.mma.append(MmaLoop(left, right, out, accumulator))

    def end() -> None:
        context.mma.pop()
        m, n = started[0], started[1]
        region = Region(out, (m.start, n.start), (m.extent, n.extent), ())
        subscripts.store(context, region, context.scope.pop(accumulator), span)

    def trip(number: int, extent: object, **more: object) -> Trip:
        upper = subscripts.extent_value(builder, extent, span)  # type: ignore[arg-type]
        return Trip(
            "mnk"[number], 0, upper, blocks[number], targets[number], block(number, blocks[number]),
            "tile" if number < 2 else "range", **more,  # type: ignore[arg-type]
        )  # fmt: skip

    return Iteration(
        [
            trip(0, rows),
            trip(1, columns, before_inner=begin, after_inner=end),
            trip(2, depth, hidden={accumulator}),
        ]
    )


def assigned_names(nodes: Sequence[ast.stmt]) -> set[str]:
    """Every name that statements in `nodes` may set, loops' own variables included."""
    names: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                names.add(inner.id)
    return names


def breaks(nodes: Sequence[ast.stmt]) -> bool:
    """True when a `break` in `nodes` belongs to the loop they are the body of."""
    for node in nodes:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.If) and (breaks(node.body) or breaks(node.orelse)):
            return True
    return False
