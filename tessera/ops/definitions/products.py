"""Products of elements along axes: of all of them, and running ones."""

from collections.abc import Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.graphs.function import operator
from tessera.graphs.shapes import axes_of, axis_of, summed, working
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import full, pad, stack

Axes = int | Sequence[int] | None

BLOCK: Final = 8
"""Factors that are multiplied in order; the products of blocks are multiplied in the same way."""


@operator("prod")
def prod(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the product along axes, or of everything; 1 of no elements.

    Integers and bools are multiplied in 64 bits, as NumPy's; floats of 16 bits in f32, rounded once.  Blocks of 8
    factors are multiplied in order, then blocks of 8 of their products, and so on, so the association is fixed and n
    factors take log8(n) passes.  Derivatives are products of the other factors, without a division: right where
    factors are 0.  Raises OperandMismatch for an axis that is not there.
    """
    factors = as_tracer(x)
    axes, dtype = axes_of(factors.ndim, axis), summed(factors.dtype)
    others = [n for n in range(factors.ndim) if n not in axes]
    shape = [factors.shape[n] for n in others]
    count = 1
    for n in axes:
        count *= factors.shape[n]
    moved = factors.astype(working(dtype)).transpose(*others, *axes) if factors.ndim else factors.astype(working(dtype))
    product = _product(moved.reshape(*shape, count)).astype(dtype)
    return product.reshape(*(1 if n in axes else size for n, size in enumerate(factors.shape))) if keepdims else product


def _product(x: Tracer) -> Tracer:
    """Return the product along the last axis."""
    if not x.shape[-1]:
        return full(x.shape[:-1], 1, x.dtype)
    while x.shape[-1] > BLOCK:
        x = _in_order(_blocks(x))[-1]
    return _in_order(x)[-1]


def _blocks(x: Tracer) -> Tracer:
    """Return the last axis in blocks, the last one filled with 1: [..., blocks, 8]."""
    *batch, length = x.shape
    count = -(-length // BLOCK)
    filled = pad(x, [*[(0, 0)] * len(batch), (0, count * BLOCK - length)], 1)
    return filled.reshape(*batch, count, BLOCK)


def _in_order(x: Tracer) -> list[Tracer]:
    """Return the running products along the last axis, one by one."""
    products = [x[..., 0]]
    for n in range(1, x.shape[-1]):
        products.append(products[-1] * x[..., n])
    return products


@operator("cumprod")
def cumprod(x: Array, axis: int | None = -1) -> Array:
    """Return the running products along an axis: floats of 16 bits in f32, integers and bools in 64 bits, as NumPy's.

    In blocks of 8 factors the products are made in order; the product of the blocks before is the running product of
    their products, made in the same way, and multiplied last.  axis: None: of all elements in row-major order.
    Derivatives are made without a division.  Raises OperandMismatch for an axis that is not there.
    """
    factors = as_tracer(x)
    factors = factors.reshape(-1) if axis is None else factors
    number, dtype = 0 if axis is None else axis_of(factors.ndim, axis), summed(factors.dtype)
    order = [*(n for n in range(factors.ndim) if n != number), number]
    products = _running(factors.astype(working(dtype)).transpose(*order))
    return products.transpose(*(order.index(n) for n in range(factors.ndim))).astype(dtype)


def _running(x: Tracer) -> Tracer:
    """Return running products along the last axis."""
    *batch, length = x.shape
    if not length:
        return x
    if length <= BLOCK:
        return stack(_in_order(x), -1)
    within = _running(_blocks(x))
    before = pad(_running(within[..., -1]), [*[(0, 0)] * len(batch), (1, 0)], 1)[..., :-1]
    return (within * before[..., None]).reshape(*batch, within.shape[-2] * BLOCK)[..., :length]
