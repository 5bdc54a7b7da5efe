"""Find what divides an integer, whatever the launch: the alignment of indices.

Unlike a range (`integers.py`), a divisor does not depend on where the value is used.  Where arithmetic wraps, only
powers of two still divide the result, so callers ask for these, or for values that are known not to wrap.
"""

import math
from collections.abc import Callable
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.ir_walk import body, constant, defining

_MAX_DEPTH: Final = 16
_WIDTH: Final = 64


def multiple_of(value: ir.Value) -> int:
    """Return a number that certainly divides an integer of Tile IR; 0, which everything divides, for the value 0."""
    return _Divisors().of(value)


class _Divisors:
    """The divisors found in one query; those of values that loops carry begin optimistic and sink to a fixpoint."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, int] = {}
        self._assumed: dict[ir.Value, int] = {}

    def of(self, value: ir.Value, depth: int = 0) -> int:
        """Return a divisor of `value`."""
        for table in (self._known, self._assumed):
            if value in table:
                return table[value]
        found = self._work_out(value, depth)
        if not self._assumed:
            self._known[value] = found
        return found

    def both(self, a: ir.Value, b: ir.Value, depth: int) -> int:
        """Return a divisor of a sum, a difference and a choice of two values."""
        return math.gcd(self.of(a, depth), self.of(b, depth))

    def _work_out(self, value: ir.Value, depth: int) -> int:
        number = constant(value)
        if number is not None:
            return abs(number)
        if depth > _MAX_DEPTH:
            return 1
        op = defining(value)
        if op is None:
            loop = ir.BlockArgument(value).owner.owner.operation
            place = ir.BlockArgument(value).arg_number
            return self._of_loop(loop, place, depth + 1) if loop.name == "scf.for" else 1
        if op.name == "scf.for":
            return self.of(body(op).arguments[1 + ir.OpResult(value).result_number], depth + 1)
        if op.name == "scf.if":
            place = ir.OpResult(value).result_number
            yes, no = (list(region.blocks[0].operations)[-1].operands[place] for region in op.regions)
            return self.both(yes, no, depth + 1)
        rule = _RULES.get(op.name)
        return 1 if rule is None else rule(self, op, depth + 1)

    def _of_loop(self, loop: AnyOp, place: int, depth: int) -> int:
        """Return a divisor of a loop's index (`place` 0), a lower bound and steps, or of a value that it carries."""
        if place == 0:
            return self.both(loop.operands[0], loop.operands[2], depth)
        block = body(loop)
        carried, end = block.arguments[place], list(block.operations)[-1]
        found = self.of(loop.operands[2 + place], depth)
        while True:
            self._assumed[carried] = found
            following = math.gcd(found, self.of(end.operands[place - 1], depth))
            del self._assumed[carried]
            if following == found:
                return found
            found = following

    def product(self, op: AnyOp, depth: int) -> int:
        """Return a divisor of a product."""
        a, b = op.operands
        return self.of(a, depth) * self.of(b, depth)

    def shifted(self, op: AnyOp, depth: int) -> int:
        """Return a divisor of a value that is shifted left."""
        a, amount = op.operands
        number = constant(amount)
        return self.of(a, depth) << number if number is not None and 0 <= number < _WIDTH else 1

    def either(self, op: AnyOp, depth: int) -> int:
        """Return a divisor of what is made of the last two operands."""
        a, b = list(op.operands)[-2:]
        return self.both(a, b, depth)


_RULES: Final[dict[str, Callable[[_Divisors, AnyOp, int], int]]] = {
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.minsi", "arith.maxsi", "arith.select"), _Divisors.either),
    "arith.muli": _Divisors.product,
    "arith.shli": _Divisors.shifted,
}
