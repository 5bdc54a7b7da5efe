"""Arithmetic on `i64` indices that may be known at compile time: a Python int, or an MLIR value."""

from collections.abc import Iterable

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter


class Indices:
    """Emits index arithmetic, folding what is known."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter

    def value(self, index: Index) -> ir.Value:
        """Return `index` as an `i64` value."""
        return self.emitter.constant(index, "i64") if isinstance(index, int) else index

    def add(self, a: Index, b: Index) -> Index:
        """Emit a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        return a if isinstance(b, int) and b == 0 else self._op("arith.addi", a, b)

    def sub(self, a: Index, b: Index) -> Index:
        """Emit a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._op("arith.subi", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        """Emit a * b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(b, int):
            a, b = b, a
        if isinstance(a, int) and a in (0, 1):
            return b if a else 0
        return self._op("arith.muli", a, b)

    def divide(self, a: Index, b: int) -> Index:
        """Emit a // b of an index that is not negative."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self._op("arith.divui", a, b)

    def modulo(self, a: Index, b: int) -> Index:
        """Emit a % b of an index that is not negative."""
        return a % b if isinstance(a, int) else self._op("arith.remui", a, b)

    def min(self, a: Index, b: Index) -> Index:
        """Emit the minimum of a and b."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._op("arith.minsi", a, b)

    def max(self, a: Index, b: Index) -> Index:
        """Emit the maximum of a and b."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._op("arith.maxsi", a, b)

    def dot(self, indices: Iterable[Index], strides: Iterable[Index]) -> Index:
        """Emit the sum of products, an offset in elements."""
        total: Index = 0
        for index, stride in zip(indices, strides, strict=True):
            total = self.add(total, self.mul(index, stride))
        return total

    def less(self, a: Index, b: Index) -> ir.Value:
        """Emit a < b, signed, as an `i1` value."""
        return self.emitter.value("arith.cmpi", (self.value(a), self.value(b)), "i1", {"predicate": "2 : i64"})

    def at_most(self, a: Index, b: Index) -> ir.Value:
        """Emit a <= b, signed, as an `i1` value."""
        return self.emitter.value("arith.cmpi", (self.value(a), self.value(b)), "i1", {"predicate": "3 : i64"})

    def equal(self, a: Index, b: Index) -> ir.Value:
        """Emit a == b as an `i1` value."""
        return self.emitter.value("arith.cmpi", (self.value(a), self.value(b)), "i1", {"predicate": "0 : i64"})

    def select(self, condition: ir.Value, a: Index, b: Index) -> Index:
        """Emit a where the `i1` value holds, else b."""
        return self.emitter.value("arith.select", (condition, self.value(a), self.value(b)), "i64")

    def all(self, conditions: Iterable[ir.Value]) -> ir.Value | None:
        """Emit the conjunction of `i1` values; return None without any."""
        known = list(conditions)
        return self.both(*known) if known else None

    def both(self, first: ir.Value, *others: ir.Value) -> ir.Value:
        """Return the conjunction of `i1` values."""
        for other in others:
            first = self.emitter.value("arith.andi", (first, other), "i1")
        return first

    def _op(self, name: str, a: Index, b: Index) -> ir.Value:
        return self.emitter.value(name, (self.value(a), self.value(b)), "i64")
