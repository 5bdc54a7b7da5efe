"""Values that were read from where nothing is: *poison*, which a guard drops and a use reports.

`x[i] if i < n else 0.0` computes both sides, and so reads outside `x`, where the read gives 0 and does no harm.  It is
a mistake only where that 0 is used.  So the sanitizer marks what such a read gives.  The mark goes with the value
through operations without effect; `select` takes the mark of the side it chooses, `and` and `or` of bools lose it where
the other side decides; what stores the value, branches on it, takes it as an index, exchanges it between lanes or
reduces it reports the read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import boolean
from tessera.core.program.program import Op
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Scalar, Tile
from tessera.runtime.interpret.operands import Operand

Marks = NDArray[np.int32]
"""0 where a value is good, else the number of the read (see `Sanitizer.doubt`): one each lane or element, or 0-d."""

CLEAN: Final[Marks] = np.zeros((), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Poisoned:
    """A scalar or tile as the interpreter holds it, with the marks of its elements."""

    value: Operand
    marks: Marks


def marked(value: Operand, marks: Marks) -> Operand:
    """Return `value` with its marks; as it is where there are none."""
    return Poisoned(value, marks) if marks.any() else value


def plain(operand: Operand) -> Operand:
    """Return the value without its marks."""
    return operand.value if isinstance(operand, Poisoned) else operand


def marks_of(operand: Operand) -> Marks:
    """Return the marks of a value."""
    return operand.marks if isinstance(operand, Poisoned) else CLEAN


def passed_on(op: Op, operands: Sequence[Operand], function: Callable[..., NDArray[np.generic]]) -> Marks | None:
    """Return the marks of what a pure operation makes of `operands`; None where taking them is a use.

    function: what computes the operation, which moves the marks of a tile as it moves its elements
    """
    marks = [marks_of(operand) for operand in operands]
    if op.opcode == "select":
        condition, *sides = marks
        return first(condition, np.where(plain(operands[0]), *sides))
    if op.opcode in _DECIDING and _is_bool(op):
        a, b = (plain(operand) for operand in operands)
        decides = _DECIDING[op.opcode]
        by_a, by_b = (a == decides) & (marks[0] == 0), (b == decides) & (marks[1] == 0)
        return np.where(by_a | by_b, CLEAN, first(*marks))
    if op.opcode in _ELEMENT_WISE:
        return first(*marks)
    if op.opcode in _MOVING:
        return np.asarray(function(marks[0]), np.int32) if marks[0].ndim else marks[0]
    return marks[0] if op.opcode == "full" else None


def first(*marks: Marks) -> Marks:
    """Return, for each element, the first of its marks."""
    result = marks[0]
    for other in marks[1:]:
        result = np.where(result != 0, result, other)
    return result


def _is_bool(op: Op) -> bool:
    kind = op.result.type
    return isinstance(kind, Scalar | Tile) and kind.dtype == boolean


_DECIDING: Final = {"and": False, "or": True}
"""The value of one side that makes the other side's not matter."""
_ELEMENT_WISE: Final = frozenset({*BINARY, *UNARY, "fma", "cmp", "cast"})
_MOVING: Final = frozenset({"broadcast", "reshape", "transpose"})
