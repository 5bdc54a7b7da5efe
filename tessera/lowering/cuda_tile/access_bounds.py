"""Prove where accesses begin inside their arrays.

A partition view may only be asked for tiles that lie, at least in part, inside the array.  Where that is not proven,
elements are addressed one by one, under a mask.
"""

from dataclasses import dataclass, field

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.expressions import Expression
from tessera.lowering.analysis.integers import IntegerRanges, integer_ranges
from tessera.lowering.base.ir_walk import constant, defining, operations
from tessera.lowering.base.launch_grid import ranges_of


@dataclass
class AccessBounds:
    """Proves where accesses of one function begin; `group` is the kernel's `tile[...]`."""

    function: AnyOp
    group: tuple[int, ...] | None = None
    _ranges: list[tuple[Expression, int]] = field(init=False)
    _known: dict[ir.Block, IntegerRanges] = field(default_factory=dict[ir.Block, IntegerRanges])

    def __post_init__(self) -> None:
        self._ranges = list(ranges_of(self.function))
        ids = operations(self.function, "tessera.id")
        self._group = ids[0].results[0] if len(ids) == 1 else None

    def least(self, op: AnyOp, value: ir.Value) -> int | None:
        """Return the least that `value` can be where `op` runs, or None."""
        return self._integers(op).least(value)

    def begins_inside(self, op: AnyOp, start: ir.Value, extent: int | str) -> bool:
        """Return whether 0 <= start < extent is certain where `op` runs."""
        found = self._range_start(start)
        if found is not None and found[0] == extent:
            return True
        bounds = self._integers(op).bounds(start)
        return bounds is not None and bounds.low >= 0 and bounds.below(extent)

    def _integers(self, op: AnyOp) -> IntegerRanges:
        return self._known.setdefault(op.operation.block, integer_ranges(op, self.group))

    def _range_start(self, start: ir.Value) -> tuple[Expression, int] | None:
        """Return the range that `start` is `number * step` of: one of those the groups were made from."""
        op = defining(start)
        multiplier = constant(op.operands[1]) if op is not None and op.name == "arith.muli" else None
        number, step = (start, 1) if op is None or multiplier is None else (op.operands[0], multiplier)
        place = self._range_of(number)
        return self._ranges[place] if place is not None and self._ranges[place][1] == step else None

    def _range_of(self, number: ir.Value) -> int | None:
        """Return the range that `number` counts: the last by `group % count`, those before it after a division each."""
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
