"""What is known of the numbers a tile's position is computed from: multiples of what they are, and where they end.

A partition view may only be asked for tiles that lie, at least in part, inside the array.  Where that is not proven,
elements are addressed one by one, under a mask.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.expressions import Expression
from tessera.lowering.analysis.integers import Knowledge, knowledge
from tessera.lowering.base.ir_walk import constant, defining, operations
from tessera.lowering.base.launch_grid import ranges_of

_MAX_DEPTH: Final = 16
_ANY: Final = 0
"""0 is a multiple of everything."""


def multiple_of(value: ir.Value, depth: int = 0) -> int:
    """A number that divides the integer `value`, whatever the launch; 0 for a value that is 0."""
    number = constant(value)
    if number is not None:
        return abs(number)
    if depth > _MAX_DEPTH:
        return 1
    op = defining(value)
    if op is None:
        return _of_an_index(value, depth)
    operands = list(op.operands)
    if op.name == "arith.muli":
        return multiple_of(operands[0], depth + 1) * multiple_of(operands[1], depth + 1)
    if op.name in ("arith.addi", "arith.subi", "arith.maxsi", "arith.minsi"):
        return math.gcd(multiple_of(operands[0], depth + 1), multiple_of(operands[1], depth + 1))
    if op.name == "arith.select":
        return math.gcd(multiple_of(operands[1], depth + 1), multiple_of(operands[2], depth + 1))
    return 1


def _of_an_index(value: ir.Value, depth: int) -> int:
    """The index of a loop is its lower bound and a number of steps."""
    loop = ir.BlockArgument(value).owner.owner.operation
    if loop.name != "scf.for" or ir.BlockArgument(value).arg_number != 0:
        return 1
    lower, _, step = list(loop.operands)[:3]
    return math.gcd(multiple_of(lower, depth + 1), multiple_of(step, depth + 1))


@dataclass
class Divisibility:
    """Proves where accesses of one function begin; `group` is the kernel's `tile[...]`."""

    function: AnyOp
    group: tuple[int, ...] | None = None
    _ranges: list[tuple[Expression, int]] = field(init=False)
    _known: dict[ir.Block, Knowledge] = field(default_factory=dict[ir.Block, Knowledge])

    def __post_init__(self) -> None:
        self._ranges = list(ranges_of(self.function))
        ids = operations(self.function, "tessera.id")
        self._group = ids[0].results[0] if len(ids) == 1 else None

    def least(self, op: AnyOp, value: ir.Value) -> int | None:
        """The least that `value` can be where `op` runs, or None."""
        bounds = self._knowledge(op).bounds(value)
        if bounds is None and self._range_start(value) is not None:
            return 0
        return None if bounds is None else bounds.low

    def begins_inside(self, op: AnyOp, start: ir.Value, extent: int | str) -> bool:
        """Whether 0 <= start < extent is certain where `op` runs."""
        found = self._range_start(start)
        if found is not None and found[0] == extent:
            return True
        bounds = self._knowledge(op).bounds(start)
        return bounds is not None and bounds.low >= 0 and bounds.below(extent)

    def _knowledge(self, op: AnyOp) -> Knowledge:
        return self._known.setdefault(op.operation.block, knowledge(op, self.group))

    def _range_start(self, start: ir.Value) -> tuple[Expression, int] | None:
        """The range that `start` is `number * step` of: one of those the groups were made from."""
        op = defining(start)
        factor = constant(op.operands[1]) if op is not None and op.name == "arith.muli" else None
        number, step = (start, 1) if op is None or factor is None else (op.operands[0], factor)
        place = self._range_of(number)
        return self._ranges[place] if place is not None and self._ranges[place][1] == step else None

    def _range_of(self, number: ir.Value) -> int | None:
        """Which range `number` counts: the last by `group % count`, those before it after a division each."""
        last = len(self._ranges) - 1
        if self._group is None:
            return None
        op = defining(number)
        remainder = False
        if op is not None and op.name == "arith.remui":
            number, remainder = op.operands[0], True
        divisions = 0
        while number != self._group:
            op = defining(number)
            if op is None or op.name != "arith.divui":
                return None
            number, divisions = op.operands[0], divisions + 1
        if divisions > last or (not remainder and divisions != last):
            return None
        return last - divisions
