"""Where an index can lie: `coefficient * variable + [low, high]`, worked out from the arithmetic that makes it."""

from dataclasses import dataclass
from typing import Any

from tessera.lowering.tile.bounds import Knowledge
from tessera.lowering.tile.walk import constant, defining


@dataclass(frozen=True, slots=True)
class Affine:
    """All values `coefficient * variable + r` with low <= r <= high."""

    coefficient: int
    low: int
    high: int

    def __add__(self, other: "Affine") -> "Affine":
        return Affine(self.coefficient + other.coefficient, self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> "Affine":
        """Multiplied by a number."""
        ends = (self.low * factor, self.high * factor)
        return Affine(self.coefficient * factor, min(ends), max(ends))


def affine(value: Any, variable: Any, known: Knowledge) -> Affine | None:
    """`value` as a function of `variable`, or None where it is not known to be affine with a bounded rest.

    Sums, differences and products with constants are seen through; what is left needs bounds, which `known` gives.
    """
    if value == variable:
        return Affine(1, 0, 0)
    op = defining(value)
    if op is not None and op.name in ("arith.addi", "arith.subi", "arith.muli"):
        a, b = (affine(v, variable, known) for v in op.operands)
        if a is None or b is None:
            return None
        if op.name == "arith.addi":
            return a + b
        if op.name == "arith.subi":
            return a + b.times(-1)
        factor = constant(op.operands[1])
        if factor is not None:
            return a.times(factor)
        if a.coefficient or b.coefficient:
            return None
    bounds = known.bounds(value)
    return None if bounds is None else Affine(0, bounds.low, bounds.high)
