"""Activations: PyTorch's functions and defaults, right over the whole range of each dtype, infinities included.

What grows is cut to a bound where a factor vanishes, so that no infinity meets a 0, and no derivative one.  Floats of
16 bits are computed in f32 and rounded once.  The derivative at a kink is PyTorch's.
"""

import math
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.program.spec import IN_RANGE
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.operands.numbers import literal
from tessera.graphs.shapes import axes_of
from tessera.graphs.tracer import Tracer, apply_expr
from tessera.ops.definitions.exponentials import (
    below,
    cut_expr,
    expm1_expr,
    reciprocal_in_range,
    softplus_of,
)
from tessera.ops.definitions.floats import widened

LOGISTIC_BOUND: Final = 1000.0
"""Beyond it exp(-|x|) is 0 in f64."""
NORMAL_BOUND: Final = 40.0
"""Beyond it the normal distribution function is 0 or 1, and its density 0, in f64."""
SELU_SCALE: Final = 1.0507009873554804934193349852946
SELU_ALPHA: Final = 1.6732632423543772848170429916717
"""The numbers with which mean 0 and variance 1 are a fixed point (Klambauer et al. 2017)."""


@operator("relu")
def relu(x: Array) -> Array:
    """Return x where it is positive, else 0; its derivative at 0 is 0."""
    return tracer.binary("max", 0, x)


@operator("relu6")
def relu6(x: Array) -> Array:
    """Return x, but 0 where it is less and 6 where it is greater; its derivative at 0 and 6 is 0.  Integers stay."""
    return tracer.binary("min", 6, tracer.binary("max", 0, x))


@operator("hardtanh")
def hardtanh(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    """Return x, but `low` where it is less and `high` where it is greater; its derivative at both is 0.

    Raises OperandMismatch for a `low` above `high`.
    """
    if not low <= high:
        raise OperandMismatch(f"hardtanh from {low} to {high} has no numbers between", hint="give low <= high")
    return tracer.binary("min", high, tracer.binary("max", low, x))


@operator("hardsigmoid")
def hardsigmoid(x: Array) -> Array:
    """Return (x + 3) / 6, but 0 below -3 and 1 above 3; its derivative at -3 and 3 is 0."""
    wide, dtype = widened(x)
    return ((_cut(wide, 3.0) + 3.0) / 6.0).astype(dtype)


@operator("hardswish")
def hardswish(x: Array) -> Array:
    """Return x hardsigmoid(x): x (x + 3) / 6, but 0 below -3 and x above 3 (Howard et al. 2019, "h-swish").

    Its derivative is 0 at -3 and 1 at 3, as PyTorch has it from 2.8 on.
    """
    wide, dtype = widened(x)
    near = _cut(wide, 3.0)
    return tracer.select(wide < 3.0, near * (near + 3.0) / 6.0, wide).astype(dtype)


def _cut(x: Tracer, bound: float) -> Tracer:
    """Return x between -bound and bound; its derivative at both is 0."""
    return tracer.binary("min", bound, tracer.binary("max", -bound, x))


@operator("leaky_relu")
def leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """Return x where it is positive, else slope x (Maas et al. 2013); its derivative at 0 is `slope`."""
    wide, dtype = widened(x)
    if slope == 0:  # 0 times -inf is no number
        return tracer.binary("max", 0.0, wide).astype(dtype)
    return tracer.select(wide > 0.0, wide, wide * slope).astype(dtype)


@operator("elu")
def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where it is positive, else alpha (exp(x) - 1) (Clevert et al. 2016); its derivative at 0 is `alpha`."""
    return _exponential_unit(x, 1.0, alpha, 1.0)


@operator("selu")
def selu(x: Array) -> Array:
    """Return 1.0507 elu(x, 1.67326) (Klambauer et al. 2017); its derivative at 0 is 1.0507 * 1.67326 = 1.7581."""
    return _exponential_unit(x, SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1.0)


@operator("celu")
def celu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where it is positive, else alpha (exp(x / alpha) - 1) (Barron 2017); its derivative at 0 is 1.

    Raises OperandMismatch for an `alpha` of 0.
    """
    if alpha == 0:
        raise OperandMismatch("celu divides by alpha, which is 0", hint="take op.relu(x), its limit")
    return _exponential_unit(x, 1.0, alpha, alpha)


def _exponential_unit(x: Array, above: float, under: float, width: float) -> Tracer:
    """Return above x where x is positive, else under (exp(x / width) - 1), which is chosen at 0."""
    wide, dtype = widened(x)
    a, zero = Argument(0, wide.dtype), Literal(0.0, wide.dtype)
    # The exponential of a positive number would overflow; `min` of equal operands has the derivative of its first one.
    falling = apply("min", a, zero)
    if width != 1:
        falling = apply("div", falling, literal(width, wide.dtype))
    scaled = apply("mul", literal(under, wide.dtype), expm1_expr(falling))
    is_above = apply("cmp", a, zero, predicate="gt")
    return apply_expr(apply("select", is_above, apply("mul", literal(above, wide.dtype), a), scaled), [wide]).astype(
        dtype
    )


@operator("softsign")
def softsign(x: Array) -> Array:
    """Return x / (1 + |x|) (Turian et al. 2009): from 1 on as 1 - 1 / (1 + |x|), which has a limit.

    Its second derivative at 0 is 0.
    """
    wide, dtype = widened(x)
    a, near, one = Argument(0, wide.dtype), cut_expr(Argument(0, wide.dtype), 1.0), Literal(1.0, wide.dtype)
    magnitude = apply("abs", a)
    sign = apply("select", apply("cmp", a, one, predicate="gt"), one, Literal(-1.0, wide.dtype))
    far = apply("mul", sign, apply("sub", one, apply("div", one, apply("add", one, magnitude))))
    small = apply("div", near, apply("add", one, apply("abs", near)))
    is_far = apply("cmp", magnitude, one, predicate="gt")
    return apply_expr(apply("select", is_far, far, small), [wide]).astype(dtype)


@operator("sigmoid")
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)); floats of 16 bits are computed in f32 and rounded once."""
    wide, dtype = widened(x)
    return _logistic(wide).astype(dtype)


def _logistic(x: Tracer) -> Tracer:
    """Return 1 / (1 + exp(-x)) of f32 or f64."""
    decay = tracer.unary("exp", below(x))
    return tracer.select(x > 0.0, 1.0, decay) * reciprocal_in_range(1.0 + decay)


@operator("log_sigmoid")
def log_sigmoid(x: Array) -> Array:
    """Return log(sigmoid(x)) without overflow or cancellation: -softplus(-x)."""
    wide, dtype = widened(x)
    return (-softplus_of(-wide)).astype(dtype)


@operator("glu")
def glu(x: Array, axis: int = -1) -> Array:
    """Return a sigmoid(b), where a and b are the halves of x along an axis (Dauphin et al. 2017).

    Raises OperandMismatch for an axis that has no two halves.
    """
    wide, dtype = widened(x)
    number = axes_of(wide.ndim, axis)[0]
    half, odd = divmod(wide.shape[number], 2)
    if odd:
        raise OperandMismatch(f"{wide.shape[number]} elements along axis {axis} of {wide.shape} have no two halves")
    front = (slice(None),) * number
    value, gate = wide[(*front, slice(0, half))], wide[(*front, slice(half, None))]
    return (value * _logistic(gate)).astype(dtype)


@operator("silu")
def silu(x: Array) -> Array:
    """Return x * sigmoid(x) (Elfwing et al. 2018, "swish")."""
    wide, dtype = widened(x)
    # max(x, 0) - |x| sigmoid(-|x|), where |x| ends at a bound: an infinity meets no derivative that is 0.
    near = tracer.binary("max", below(wide), -LOGISTIC_BOUND)
    decay = tracer.unary("exp", near)
    return (tracer.binary("max", 0.0, wide) + near * (decay * reciprocal_in_range(1.0 + decay))).astype(dtype)


@operator("mish")
def mish(x: Array) -> Array:
    """Return x tanh(softplus(x)) (Misra 2020), as a fraction of polynomials of exp(-|x|)."""
    wide, dtype = widened(x)
    a = Argument(0, wide.dtype)

    def number(value: float) -> Expr:
        return Literal(value, wide.dtype)

    near = apply("max", apply("min", a, apply("neg", a)), number(-LOGISTIC_BOUND))
    decay = apply("exp", near)
    # With e = exp(-|x|): tanh(log(1 + exp(x))) is e (2 + e) / (2 + 2 e + e^2) up to 0, and above it 1 less
    # e (0 + 2 e) / (1 + 2 e + 2 e^2); the numbers are chosen, not the fractions.
    is_above = apply("cmp", a, number(0.0), predicate="gt")
    twice, once, none = (
        apply("select", is_above, number(high), number(low)) for high, low in ((2.0, 1.0), (1.0, 2.0), (0.0, 2.0))
    )
    top = apply("mul", decay, apply("add", none, apply("mul", twice, decay)))
    linear = apply("add", once, apply("mul", number(2.0), decay))
    bottom = apply("add", linear, apply("mul", twice, apply("mul", decay, decay)))
    share = apply("mul", top, apply("div", number(1.0), bottom, predicate=IN_RANGE))
    return apply_expr(apply("add", apply("max", number(0.0), a), apply("mul", near, share)), [wide]).astype(dtype)


@operator("gelu")
def gelu(x: Array, approximate: str = "none") -> Array:
    """Return x times the normal distribution function of x (Hendrycks and Gimpel 2016).

    approximate: "none", or "tanh" for 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).  Raises OperandMismatch for
    another name.
    """
    if approximate not in ("none", "tanh"):
        raise OperandMismatch(f"gelu has no approximation {approximate!r}", hint='choose "none" or "tanh"')
    wide, dtype = widened(x)
    return apply_expr(_gelu_expr(Argument(0, wide.dtype), approximate), [wide]).astype(dtype)


def _gelu_expr(x: Expr, approximate: str) -> Expr:
    """Return gelu as one expression: a backward pass reads x alone, and computes the rest again.

    Where the distribution function is 0, both factors end at a bound, and where it is 1, the result is x: an infinity
    meets no 0, in derivatives neither.
    """
    half, one, bound = (literal(number, x.dtype) for number in (0.5, 1.0, NORMAL_BOUND))
    near = apply("min", apply("max", x, literal(-NORMAL_BOUND, x.dtype)), bound)
    if approximate == "tanh":
        cube = apply("mul", literal(0.044715, x.dtype), apply("mul", apply("mul", near, near), near))
        inner = apply("mul", literal(math.sqrt(2 / math.pi), x.dtype), apply("add", near, cube))
        gate = apply("tanh", inner)
    else:
        gate = apply("erf", apply("mul", near, literal(math.sqrt(0.5), x.dtype)))
    gated = apply("mul", apply("mul", half, near), apply("add", one, gate))
    return apply("select", apply("cmp", x, bound, predicate="gt"), x, gated)


@operator("softplus")
def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) without overflow or cancellation: max(x, 0) + log1p(exp(-|x|))."""
    wide, dtype = widened(x)
    return softplus_of(wide).astype(dtype)
