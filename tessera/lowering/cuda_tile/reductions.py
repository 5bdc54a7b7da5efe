"""Reductions, with the association of `core/base/reductions.py` where the order matters, and products of matrices."""

import math
from collections.abc import Sequence
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.errors.catalog import NotOnCudaTile
from tessera.lowering.cuda_tile.builder import BOOL, FLOATS, SHORT, TileBuilder
from tessera.lowering.cuda_tile.instructions import Block, TileType, Value, padded
from tessera.lowering.cuda_tile.padded_shapes import keeps_places, with_padding

_NANS_WIN: Final = {"propagate_nan": True, "flush_to_zero": False}
_MOST_PRODUCTS: Final = 1 << 16
"""Elements of the tile of all products that a product of integer matrices is added up from."""
EXACT: Final = "exact"
_PIECE: Final = 16
"""Steps of K that a product without tensor cores takes at a time: more at once do not fit in registers."""


# -- reductions ----------------------------------------------------------------------------------------------------


def reduce_tile(
    build: TileBuilder, value: Value, shape: Sequence[int], kind: str, axis: int | None, *, unsigned: bool
) -> Value:
    """Reduce a tile of `shape` along `axis`, or altogether.

    Raises:
        NotOnCudaTile: all of a tile of floats is to be added up whose padding lies between its elements.
    """
    element = value.element
    if element == BOOL:
        wide = build.resize(value, "i8", signed=False)
        found = reduce_tile(build, wide, shape, kind, axis, unsigned=True)
        return build.compare("not_equal", found, build.like(0, found))
    if element in ("f16", "bf16"):
        wide = build.float_to(value, "f32")
        return build.float_to(reduce_tile(build, wide, shape, kind, axis, unsigned=unsigned), element)
    axes = range(len(shape)) if axis is None else [axis]
    value = with_padding(build, value, shape, axes, _identity(kind, element, unsigned=unsigned))
    if element in FLOATS and kind == "sum":
        if axis is None:
            value = _flat(build, value, shape)
            axis = 0
        return _ordered_sum(build, value, axis)
    for place in reversed(axes):
        value = _any_order(build, value, place, kind, unsigned=unsigned)
    return value


def _identity(kind: str, element: str, *, unsigned: bool) -> float:
    if element in FLOATS:
        return {"sum": -0.0, "max": -math.inf, "min": math.inf}[kind]
    bits = int(element[1:])
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return {"sum": 0, "max": low, "min": high}[kind]


def _flat(build: TileBuilder, value: Value, shape: Sequence[int]) -> Value:
    flat = [math.prod(shape)]
    if not keeps_places(shape, flat):
        message = f"the sum over all of a tile of {tuple(shape)}: only its first extent may be no power of two"
        raise NotOnCudaTile(message, hint="sum along one axis, then along the other")
    return build.reshape(value, padded(flat))


def _any_order(build: TileBuilder, value: Value, axis: int, kind: str, *, unsigned: bool) -> Value:
    """Return a reduction whose result does not depend on the order."""
    identity = _identity(kind, value.element, unsigned=unsigned)
    if value.element in FLOATS:
        return build.reduce(value, axis, "maxf" if kind == "max" else "minf", identity, **_NANS_WIN)
    if kind == "sum":
        return build.reduce(value, axis, "addi", identity, overflow="none")
    signedness = "unsigned" if unsigned else "signed"
    return build.reduce(value, axis, "maxi" if kind == "max" else "mini", identity, signedness=signedness)


def _ordered_sum(build: TileBuilder, value: Value, axis: int) -> Value:
    """Sum along an axis: chains of columns, then halves, then neighbouring blocks (`core/base/reductions.py`).

    What is missing at the end of an axis is -0.0, which changes no sum, so shorter trees are the same tree.
    """
    extent = value.shape[axis]
    before, after = value.shape[:axis], value.shape[axis + 1 :]
    width, blocks = min(extent, COLUMNS), max(1, extent // BLOCK)
    steps = extent // (width * blocks)
    if steps > 1:
        table = build.reshape(value, (*before, blocks, steps, width, *after))
        size, place = (*before, blocks, 1, width, *after), len(before) + 1
        parts = [
            build.extract(table, size, [step if number == place else 0 for number in range(len(size))])
            for step in range(steps)
        ]
        value = parts[0]
        for part in parts[1:]:
            value = build.float_operation("addf", value, part)
    while width > 1:
        width //= 2
        value = build.reshape(value, (*before, blocks, 2, width, *after))
        value = _pair(build, value, len(before) + 1)
    while blocks > 1:
        blocks //= 2
        value = _pair(build, build.reshape(value, (*before, blocks, 2, *after)), len(before) + 1)
    return build.reshape(value, (*before, *after))


def _pair(build: TileBuilder, value: Value, axis: int) -> Value:
    """Return the sum of two elements along an axis of extent 2: in either order, the bits are the same."""
    return build.reduce(value, axis, "addf", -0.0, rounding_mode="nearest_even", flush_to_zero=False)


# -- products of matrices ------------------------------------------------------------------------------------------


def dot(
    build: TileBuilder,
    a: Value,
    b: Value,
    accumulator: Value | None,
    inner: int,
    result: str,
    *,
    how: str,
    unsigned: bool,
) -> Value:
    """a[M, K] times b[K, N], added to the accumulator; `inner` is K without padding.

    how: "exact" for one fused multiply-add a step of K, in order; a type that factors are rounded to; or nothing

    Raises:
        NotOnCudaTile: a product of integers that the machine has no instruction for and that is too large for others.
    """
    shape = (a.shape[0], b.shape[1])
    start = build.constant(0, result, shape) if accumulator is None else accumulator
    a = with_padding(build, a, (a.shape[0], inner), [1], 0)
    b = with_padding(build, b, (inner, b.shape[1]), [0], 0)
    if a.element in FLOATS and how == EXACT:
        return _in_order(build, a, b, start, inner)
    if how not in ("", EXACT):
        a, b = (build.float_to(v, how) for v in (a, b))
        return build.value("mmaf", (a, b, start), start.type, fast_acc=False)
    if a.element in ("f32", "f64"):
        return _in_pieces(build, a, b, start)
    if a.element in FLOATS:
        return build.value("mmaf", (a, b, start), start.type, fast_acc=False)
    if a.element == "i8" and result == "i32":
        sign = "unsigned" if unsigned else "signed"
        return build.value("mmai", (a, b, start), start.type, signedness_lhs=sign, signedness_rhs=sign)
    return _sum_of_products(build, a, b, start, unsigned=unsigned)


def _in_pieces(build: TileBuilder, a: Value, b: Value, start: Value) -> Value:
    """Return a product that is done in ordinary registers: a few steps of K after the other."""
    total, inner = start, a.shape[1]
    size = min(inner, _PIECE)
    for number in range(inner // size):
        left = build.extract(a, (a.shape[0], size), [0, number]) if size < inner else a
        right = build.extract(b, (size, b.shape[1]), [number, 0]) if size < inner else b
        total = build.value("mmaf", (left, right, total), total.type, fast_acc=False)
    return total


def _in_order(build: TileBuilder, a: Value, b: Value, start: Value, inner: int) -> Value:
    """Return a loop over K: a column of `a` times a row of `b`, fused with the sum so far."""
    a, b = (build.float_to(v, start.element) for v in (a, b))
    zero, one, end = (build.constant(n, SHORT) for n in (0, 1, inner))
    body = Block((Value(TileType(SHORT), "k"), Value(start.type, "acc")))
    with build.at(body):
        step, total = body.arguments
        none = build.constant(0, SHORT)
        column = build.extract(a, (a.shape[0], 1), [none, step])
        row = build.extract(b, (1, b.shape[1]), [step, none])
        pair = [build.broadcast(v, start.shape) for v in (column, row)]
        build.emit("continue", [build.float_operation("fma", *pair, total)])
    return build.emit("for", [zero, end, one, start], [start.type], [body]).results[0]


def _sum_of_products(build: TileBuilder, a: Value, b: Value, start: Value, *, unsigned: bool) -> Value:
    """Return a product of integers: all products as one tile, added up along K, which wraps around in any order."""
    rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
    if rows * inner * columns > _MOST_PRODUCTS:
        message = f"a product of {a.element} matrices of {rows} x {inner} and {inner} x {columns}"
        raise NotOnCudaTile(message, hint="CUDA Tile multiplies matrices of floats and of 8-bit integers")
    wide = [build.resize(v, start.element, signed=not unsigned) for v in (a, b)]
    whole = (rows, inner, columns)
    left = build.broadcast(build.reshape(wide[0], (rows, inner, 1)), whole)
    right = build.broadcast(build.reshape(wide[1], (1, inner, columns)), whole)
    total = build.reduce(build.mul(left, right), 1, "addi", 0, overflow="none")
    return build.add(start, total)
