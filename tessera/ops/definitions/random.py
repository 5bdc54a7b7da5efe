"""Random numbers: pure functions of a key and of the element's index, the same on every target.

    key = op.key(seed)
    for_weights, for_noise = op.split_key(key)
    w = op.randn((64, 64), for_weights)

Bits are those of Philox 4x32-10, see `core/base/philox.py`.  No state is kept: the same key gives the same numbers.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Final, TypeGuard

import numpy as np

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import BY_NAME, DType, DTypeLike, bf16, dtype_of, f16, f32, f64, i64, u32, u64
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Routine, Tensor
from tessera.core.program.program import Attribute
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.trace import is_operand
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer, indices
from tessera.ops.definitions.arrays import broadcast_to
from tessera.ops.definitions.normal import normal
from tessera.ops.libraries import poisson as poisson_library
from tessera.runtime.arrays.host import plain

DRAW: Final = 0
"""The stream of random numbers; further ones have streams of their own, so that no key meets numbers."""
SPLIT: Final = 1
FOLD: Final = (2, 3)
SECOND_WORD: Final = 4
"""The stream of the second word of numbers of 64 bits."""
_DIGITS: Final = {f64: 53, f32: 24, f16: 11, bf16: 8}
TRIALS: Final = 5
"""The stream of what an element draws again and again, until it has its number."""
MOST_RATE: Final = 1000
"""The greatest rate of `poisson` that is a number."""


def key(seed: object) -> Array:
    """Return the key of a seed of at most 64 bits, as an array u32[2]: what random numbers are a function of.

    Raises OperandMismatch for another seed.
    """
    number = plain(seed)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 64:
        hint = "give an integer from 0 to 2^64 - 1; op.fold_in(key, n) takes integers of a graph"
        raise at_call(OperandMismatch(f"{seed!r} is no seed", hint=hint))
    return np.array([number & 0xFFFFFFFF, number >> 32], np.uint32)


@operator("split_key")
def split_key(key: Array, count: int = 2) -> Array:
    """Return `count` new keys, u32[count, 2], independent of each other and of the numbers that `key` gives.

    Raises OperandMismatch for what is no key, and for a count below 0.
    """
    if count < 0:
        raise OperandMismatch(f"{count} keys are not made", hint="give how many are needed")
    return _bits(as_key(key), (count, 2), SPLIT)


@operator("fold_in")
def fold_in(key: Array, number: Array | int) -> Array:
    """Return the key that an integer makes of a key: another one for each step, layer or shard.

    number: an integer, or an array of integers without axes.  The key is hashed, the number added, and hashed again.
    """
    given = as_key(key)
    hashed = _bits(given, (2,), FOLD[0])
    if is_operand(number) or isinstance(number, Tracer):
        wide = indices(number, given.trace).astype(i64)
        if wide.ndim:
            raise OperandMismatch(f"a key is made of one integer, not of {wide.shape}")
        low, high = wide & 0xFFFFFFFF, tracer.binary("shr", wide, 32) & 0xFFFFFFFF
    else:
        zero = hashed[0].astype(i64) * 0
        low, high = zero + (int(number) & 0xFFFFFFFF), zero + (int(number) >> 32 & 0xFFFFFFFF)
    words = [(each.astype(i64) ^ part).astype(u32) for each, part in ((hashed[0], low), (hashed[1], high))]
    builder = given.trace.builder
    joined = builder.concat([builder.reshape(each.value, (1,)) for each in words], 0)
    return _bits(given.of(joined), (2,), FOLD[1])


@operator("random_bits")
def random_bits(shape: Sequence[int], key: Array) -> Array:
    """Return random bits as u32."""
    return _bits(as_key(key), _shape(shape), DRAW)


@operator("uniform")
def uniform(shape: Sequence[int], key: Array, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = "f32") -> Array:
    """Return numbers spread evenly over [low, high): multiples of 2^-24 of its length, 2^-53 in f64.

    Rounding to the dtype never gives `high`, nor what lies outside.  Raises OperandMismatch for a dtype that is no
    float, for an empty interval, and for one that holds no number of the dtype.
    """
    kind = _float(dtype)
    least, greatest = _ends(low, high, kind)
    given, extents, digits = as_key(key), _shape(shape), _DIGITS[kind]
    x = Argument(0, u32)
    if kind == f64:
        shifted = [cast_expr(apply("shr", Argument(n, u32), Literal(by, u32)), f64) for n, by in ((0, 5), (1, 6))]
        whole = apply("add", apply("mul", shifted[0], Literal(2.0**26, f64)), shifted[1])
        words = [_bits(given, extents, DRAW), _bits(given, extents, SECOND_WORD)]
    else:
        whole = cast_expr(apply("shr", x, Literal(32 - digits, u32)), f32)
        words = [_bits(given, extents, DRAW)]
    made = apply_expr(apply("mul", whole, Literal(2.0**-digits, whole.dtype)), words)
    if (low, high) == (0.0, 1.0):
        return made.astype(kind)
    made = (made * (high - low) + low).astype(kind)
    return tracer.binary("min", tracer.binary("max", made, least), greatest)


def _ends(low: float, high: float, dtype: DType) -> tuple[float, float]:
    """Return the least and the greatest number of a dtype in [low, high)."""
    if not low < high:
        raise OperandMismatch(f"there is no number from {low} to {high}", hint="low must be less than high")
    least, greatest = dtype.numpy.type(low), dtype.numpy.type(high)
    upwards, downwards = dtype.numpy.type(math.inf), dtype.numpy.type(-math.inf)
    if float(least) < low:
        least = np.nextafter(least, upwards)
    if float(greatest) >= high:
        greatest = np.nextafter(greatest, downwards)
    if not math.isfinite(low) or not math.isfinite(high) or least > greatest:
        raise OperandMismatch(f"no {dtype} lies from {low} to {high}", hint="give a longer interval, or dtype='f64'")
    return float(least), float(greatest)


@operator("randn")
def randn(shape: Sequence[int], key: Array, dtype: DTypeLike = "f32") -> Array:
    """Return numbers of the normal distribution with mean 0 and variance 1, by inversion of 32 bits (64 in f64).

    Short floats are rounded from f32.  Raises OperandMismatch for a dtype that is no float.
    """
    kind = _float(dtype)
    given, extents = as_key(key), _shape(shape)
    bits = _bits(given, extents, DRAW)
    if kind != f64:
        return normal(bits).astype(kind)
    high, low = (cast_expr(Argument(number, u32), u64) for number in range(2))
    both = apply("or", apply("shl", high, Literal(32, u64)), low)
    return normal(apply_expr(both, [bits, _bits(given, extents, SECOND_WORD)]))


@operator("dropout")
def dropout(x: Array, rate: float, key: Array) -> Array:
    """Return x with each element 0 with probability `rate`, the others divided by 1 - rate (Srivastava et al. 2014).

    Derivatives make the same mask again: nothing is kept.  Raises OperandMismatch for a rate outside [0, 1).
    """
    if not 0 <= rate < 1:
        raise OperandMismatch(f"a rate of {rate} leaves nothing", hint="give a number from 0 to less than 1")
    given = as_tracer(x)
    bits = _bits(as_key(key), given.shape, DRAW)
    limit = Literal(round(rate * 2**32), u32) if rate < 1 - 2.0**-33 else Literal(0xFFFFFFFF, u32)
    kept = apply_expr(apply("cmp", Argument(0, u32), limit, predicate="ge"), [bits])
    wide = given.astype(f32) if given.dtype.is_float and given.dtype.bits < f32.bits else given
    return _where(kept, wide * (1 / (1 - rate))).astype(given.dtype if given.dtype.is_float else f32)


def _where(kept: Tracer, value: Tracer) -> Tracer:
    kind = value.dtype
    test = Argument(0, kept.dtype)
    return apply_expr(apply("select", test, Argument(1, kind), Literal(0.0, kind)), [kept, value])


@operator("poisson")
def poisson(rate: Array | float, shape: Sequence[int] | None, key: Array, dtype: DTypeLike = "i64") -> Array:
    """Return integers of the Poisson distribution.

    rate: the mean: a number from 0 to 1000, by inversion of its distribution function to 32 bits; or an array of rates
      from 0 to 2^20, broadcast to `shape` (None: its own shape), by inversion below 10, and above it by rejection
      (Hoermann 1993, PTRS), with random bits of its own for each element: one kernel, a `call`, of the same bits on
      every target.  Rates are rounded to f32; one that is below 0, or NaN, gives -1.
    Raises OperandMismatch for a number out of range, rates that do not spread over `shape`, and a dtype that is no
    integer of 32 or 64 bits.
    """
    kind = dtype_of(dtype)
    if kind is None or not kind.is_integer or kind.bits < 32:
        raise OperandMismatch(f"counts are no {dtype}", hint="choose an integer, e.g. dtype='i32'")
    rate = plain(rate)
    if not isinstance(rate, int | float):
        return _poisson_of(rate, shape, key, kind)
    if not 0 <= rate <= MOST_RATE:
        hint = "beyond 1000, round rate + sqrt(rate) * op.randn(shape, key)"
        raise OperandMismatch(f"a rate of {rate} is not from 0 to {MOST_RATE}", hint=hint)
    bits = _bits(as_key(key), _shape(shape), DRAW)
    first, limits = _poisson_limits(float(rate))
    total: Expr = Literal(first, i64)
    for limit in limits:
        passed = apply("cmp", Argument(0, u32), Literal(limit, u32), predicate="ge")
        total = apply("add", total, apply("select", passed, Literal(1, i64), Literal(0, i64)))
    return apply_expr(total, [bits]).astype(kind)


def _poisson_of(rate: Array, shape: Sequence[int] | None, key: Array, kind: DType) -> Array:
    """Return counts of an array of rates."""
    given = as_tracer(rate)
    spread = broadcast_to(given.astype(f32), given.shape if shape is None else _shape(shape))
    operands = [spread.value, as_key(key).value]
    (made,) = given.trace.builder.call(_POISSON, operands, stream=TRIALS, dtype=kind.name)
    return given.of(made)


def _counts(types: Sequence[Tensor], options: Mapping[str, Attribute]) -> list[Tensor]:
    return [Tensor(BY_NAME[str(options["dtype"])], types[0].shape)]


_POISSON: Final = Routine("poisson", "a kernel", _counts, poisson_library.poisson, fills=True)


def _poisson_limits(rate: float) -> tuple[int, list[int]]:
    """Return the least count that 32 bits reach, and from which bits on it is one more, two more, ..."""
    limits: list[int] = []
    with localcontext() as context:
        context.prec = 40
        mean, count = Decimal(rate), 0
        mass = (-mean).exp()
        total, first = mass, 0
        while (limit := round(total * 2**32)) < 2**32:
            if limit:
                limits.append(limit)
            else:
                first += 1
            count += 1
            mass = mass * mean / count
            total += mass
    return first, limits


def _bits(key: Tracer, shape: Sequence[int], stream: int) -> Tracer:
    return key.of(key.trace.builder.random(key.value, shape, stream))


def as_key(key: object) -> Tracer:
    """Return a key as an operand.  Raises OperandMismatch for what is none."""
    if not (is_operand(key) or isinstance(key, Tracer)):
        raise OperandMismatch(f"{key!r} is no key", hint="make one with op.key(seed)")
    given = as_tracer(key)
    if given.value.type != Tensor(u32, (2,)):
        raise OperandMismatch(f"a key is u32[2], not {given.value.type}", hint="make one with op.key(seed)")
    return given


def _shape(shape: object) -> tuple[int, ...]:
    if not _is_shape(shape):
        raise OperandMismatch(f"{shape!r} is no shape", hint="give a tuple of extents, e.g. (3, 4)")
    return tuple(shape)


def _is_shape(shape: object) -> TypeGuard[Sequence[int]]:
    return isinstance(shape, tuple | list) and all(isinstance(each, int) and each >= 0 for each in shape)  # pyright: ignore[reportUnknownVariableType]


def _float(dtype: DTypeLike) -> DType:
    kind = dtype_of(dtype)
    if kind not in _DIGITS:
        names = ", ".join(each.name for each in _DIGITS)
        raise OperandMismatch(f"random numbers of {dtype} are not drawn", hint=f"choose from {names}")
    assert kind is not None
    return kind
