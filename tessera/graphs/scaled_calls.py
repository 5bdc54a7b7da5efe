"""Operators on codes as one `call` each, where the codes were made in the same graph.

A call says three things of an operator: what is computed of the codes, what it is over real numbers, from which
`numerics_report` takes its errors, and its derivative.  Rounding counts as the identity there (a straight-through
estimator), but for numbers that are cut to the format's greatest, whose derivative is 0.
"""

from collections.abc import Callable, Iterator, Sequence

from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.expr import Argument
from tessera.core.graph.graph import Graph, Origin, Routine
from tessera.core.graph.numerics import Numerics
from tessera.graphs import tracer
from tessera.graphs.codes import within
from tessera.graphs.custom import traced_adjoint
from tessera.graphs.scaled import Scaled, dequantize, multiply, quantize, scale_numbers, spread
from tessera.graphs.shapes import matmul_labels
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer, contraction, select

Side = Scaled | Tracer
"""An operand: codes and scales, or numbers."""
Sides = Callable[[Iterator[Tracer]], Side]
"""Takes the tracers of a side from the operands of a call."""


def product(a: Side, b: Side, *, tile_shape: tuple[int, ...] = (), exact: bool = False) -> Tracer:
    """Return the matrix product of two operands of which at least one is Scaled; see `multiply`."""

    def computed(x: Side, y: Side) -> Tracer:
        return multiply(x, y, tile_shape=tile_shape, exact=exact)

    if not any(isinstance(each, Scaled) and each.source is not None for each in (a, b)):
        return computed(a, b)
    return _call("matmul", (a, b), computed, tracer.matmul, _product_cotangents)


def restored(x: Scaled) -> Tracer:
    """Return the numbers that codes and scales stand for, in f32."""
    if x.source is None:
        return dequantize(x)
    return _call("dequantize", (x,), dequantize, _same, lambda cotangent, _: [cotangent])


def rounded(x: Tracer, numerics: Numerics, key: Tracer | None = None) -> Tracer:
    """Return numbers rounded to those that numerics can store, in the dtype that they have."""
    return restored(quantize(x, numerics, key)).astype(x.dtype)


def _same(values: Tracer) -> Tracer:
    return values


def _call(
    name: str, sides: Sequence[Side], computed: Callable[..., Tracer], real: Callable[..., Tracer],
    cotangents: Callable[[Tracer, Sequence[Tracer]], Sequence[Tracer]],
) -> Tracer:  # fmt: skip
    """Append a call.  real: of the operands' numbers; cotangents: of these, from that of the result."""
    operands = [each for side in sides for each in _operands(side)]
    definition = _captured(name, operands, lambda given: computed(*(_side(side, given) for side in sides)))
    kind = definition.outputs[0].type.dtype

    def over_reals(given: Iterator[Tracer]) -> Tracer:
        return real(*(_numbers(_side(side, given)) for side in sides)).astype(kind)

    def pulled(inputs: Sequence[Tracer], _: Sequence[Tracer], arrived: Sequence[Tracer]) -> list[Tracer | None]:
        given = iter(inputs)
        inner = [_side(side, given) for side in sides]
        values = [dequantize(each) if isinstance(each, Scaled) else each for each in inner]
        found: list[Tracer | None] = []
        for side, made in zip(inner, cotangents(arrived[0], values), strict=True):
            found += _pulled_to(side, made)
        return found

    routine = Routine(
        name, definition=definition, real=_captured(name, operands, over_reals), adjoint=traced_adjoint(pulled)
    )
    trace = operands[0].trace
    (value,) = trace.builder.call(routine, [each.value for each in operands])
    return Tracer(trace, value)


def _captured(name: str, operands: Sequence[Tracer], body: Callable[[Iterator[Tracer]], Tracer]) -> Graph:
    """Return a graph of operands like these, whose nodes are parts of the operator that is being captured."""
    around = operands[0].trace.builder
    origin = Origin(composite=around.origin.composite[-1:])
    with tracing() as trace, trace.builder.within(origin, around.span):
        given = [Tracer(trace, trace.input(each.value.type, each.value.name, each.value.numerics)) for each in operands]
        return trace.finish(name, [body(iter(given)).value])


def _operands(side: Side) -> list[Tracer]:
    """Return codes, scales and source of an operand, as far as there are."""
    if isinstance(side, Tracer):
        return [side]
    codes = side.codes if side.loose is None else side.loose
    return [as_tracer(each) for each in (codes, side.scales, side.source) if each is not None]


def _side(side: Side, given: Iterator[Tracer]) -> Side:
    """Return an operand like `side`, of the next tracers."""
    if isinstance(side, Tracer):
        return next(given)
    codes = next(given)
    scales = None if side.scales is None else next(given)
    source = None if side.source is None else next(given)
    made = Scaled(codes, scales, side.numerics, side.extents)
    return made if side.loose is None else made.made_of(source, codes)


def _numbers(side: Side) -> Tracer:
    """Return what an operand stands for before it was rounded, as far as that is known."""
    if isinstance(side, Tracer):
        return side
    return side.source if side.source is not None else dequantize(side)


def _pulled_to(side: Side, cotangent: Tracer) -> list[Tracer | None]:
    """Return the cotangents of an operand's tracers: all of it goes to the source, where nothing was cut."""
    if isinstance(side, Tracer):
        return [cotangent.astype(side.dtype)]
    idle: list[Tracer | None] = [None] * (1 if side.scales is None else 2)
    if side.source is None:
        return idle
    wide = side.source.astype(f32)
    if side.scales is not None:
        wide = wide / spread(scale_numbers(as_tracer(side.scales)), side.numerics, side.extents)
    inside = apply_expr(within(Argument(0, f32), side.numerics.format), [wide])
    return [*idle, select(inside, cotangent, 0.0).astype(side.source.dtype)]


def _product_cotangents(cotangent: Tracer, values: Sequence[Tracer]) -> list[Tracer]:
    """Return the cotangents of the factors of a matrix product."""
    x, y = values
    labels = matmul_labels(x.shape, y.shape)
    left, right = labels.labels
    wide = f64 if f64 in (cotangent.dtype, x.dtype, y.dtype) else f32
    kept = [each.reshape(*(each.shape[axis] for axis in axes)) for each, axes in zip(values, labels.kept, strict=True)]
    by_x = contraction(cotangent, kept[1], (labels.result, right), left, dtype=wide)
    by_y = contraction(cotangent, kept[0], (labels.result, left), right, dtype=wide)
    return [by_x.reshape(*x.shape), by_y.reshape(*y.shape)]
