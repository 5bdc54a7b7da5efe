"""Numbers as unevaluated sums of two floats: twice the precision, from exact errors of ordinary operations."""

from dataclasses import dataclass

from tessera.core.mlir import ir
from tessera.lowering.math.algebra import Algebra


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, where low is at most half a unit in the last place of high (unless told otherwise)."""

    high: ir.Value
    low: ir.Value


def sum_exactly(k: Algebra, a: ir.Value, b: ir.Value) -> Pair:
    """a + b as a pair, without error (Knuth)."""
    total = k.add(a, b)
    other = k.sub(total, a)
    return Pair(total, k.add(k.sub(a, k.sub(total, other)), k.sub(b, other)))


def sum_ordered(k: Algebra, a: ir.Value, b: ir.Value) -> Pair:
    """a + b as a pair, without error where |a| >= |b| or a is 0 (Dekker)."""
    total = k.add(a, b)
    return Pair(total, k.sub(b, k.sub(total, a)))


def product_exactly(k: Algebra, a: ir.Value, b: ir.Value) -> Pair:
    """a * b as a pair, without error."""
    product = k.mul(a, b)
    return Pair(product, k.fma(a, b, k.neg(product)))


def add_to_pair(k: Algebra, a: Pair, b: ir.Value) -> Pair:
    """a + b."""
    total = sum_exactly(k, a.high, b)
    return sum_ordered(k, total.high, k.add(total.low, a.low))


def add_pairs(k: Algebra, a: Pair, b: Pair) -> Pair:
    """a + b."""
    total = sum_exactly(k, a.high, b.high)
    return sum_ordered(k, total.high, k.add(total.low, k.add(a.low, b.low)))


def multiply_by(k: Algebra, a: Pair, b: tuple[float, float]) -> Pair:
    """a times a constant pair."""
    high = k.constant(b[0])
    product = product_exactly(k, a.high, high)
    low = k.fma(a.low, high, k.fma(a.high, k.constant(b[1]), product.low))
    return sum_ordered(k, product.high, low)


def multiply_pair(k: Algebra, a: Pair, b: ir.Value) -> Pair:
    """a * b."""
    product = product_exactly(k, a.high, b)
    return sum_ordered(k, product.high, k.fma(a.low, b, product.low))
