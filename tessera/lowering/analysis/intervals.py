"""Least and largest values of a Program's i64 scalars, as far as they follow from how they are made.

Used while Tile IR is built, to leave out guards that can never matter: an index divided by 32 is not negative.
It runs forward over the Program; `integers.py` knows more (symbols, branches), but needs the finished Tile IR.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.program.program import Op, Value
from tessera.core.program.types import Scalar
from tessera.lowering.analysis.integers import LARGEST_EXTENT

Interval = tuple[int, int]

_SAFE: Final = 1 << 62
_AT_LEAST_ONE: Final = ("group_lanes", "grid_groups")


class Intervals:
    """The intervals known so far; a value without one may be any number."""

    def __init__(self) -> None:
        self._known: dict[Value, Interval] = {}

    def of(self, value: Value) -> Interval | None:
        """Return the interval of `value`, both ends included, or None."""
        return self._known.get(value)

    def constant(self, value: Value) -> int | None:
        """Return the number that `value` is, or None."""
        found = self._known.get(value)
        return found[0] if found is not None and found[0] == found[1] else None

    def learn(self, op: Op) -> None:
        """Work out the result of `op` from its operands; for a loop, the index of its body."""
        if op.opcode == "for":
            self._loop(op)
        elif len(op.results) == 1:
            found = self._result(op)
            if found is not None and _fits(found, op.result):
                self._known[op.result] = found

    def _loop(self, op: Op) -> None:
        lower, upper, step = (self.of(v) for v in op.operands[:3])
        if lower is not None and upper is not None and step is not None and step[0] > 0:
            self._known[op.regions[0].arguments[0]] = (lower[0], max(lower[0], upper[1] - 1))

    def _result(self, op: Op) -> Interval | None:
        match op.opcode:
            case "const":
                value = op.attributes["value"]
                return (value, value) if isinstance(value, int) and not isinstance(value, bool) else None
            case "id":
                return (int(op.attributes["of"] in _AT_LEAST_ONE), LARGEST_EXTENT)
            case "dim":
                return (0, LARGEST_EXTENT)
            case _:
                operands = [self.of(v) for v in op.operands]
                found = [o for o in operands if o is not None]
                rule = _RULES.get(op.opcode)
                return rule(found) if rule is not None and len(found) == len(operands) else None


def _fits(interval: Interval, value: Value) -> bool:
    """Return whether the exact result lies in the type, so that nothing wrapped."""
    if not isinstance(value.type, Scalar) or not value.type.dtype.is_integer:
        return False
    dtype = value.type.dtype
    low, high = (0, 1 << dtype.bits) if dtype.kind == "uint" else (-1 << (dtype.bits - 1), 1 << (dtype.bits - 1))
    return max(low, -_SAFE) <= interval[0] and interval[1] < min(high, _SAFE)


def _multiply(o: Sequence[Interval]) -> Interval:
    ends = [x * y for x in o[0] for y in o[1]]
    return min(ends), max(ends)


def _divide(o: Sequence[Interval]) -> Interval | None:
    if o[1][0] < 1:
        return None
    ends = [x // y for x in o[0] for y in o[1]]
    return min(ends), max(ends)


_RULES: Final[dict[str, Callable[[Sequence[Interval]], Interval | None]]] = {
    "add": lambda o: (o[0][0] + o[1][0], o[0][1] + o[1][1]),
    "sub": lambda o: (o[0][0] - o[1][1], o[0][1] - o[1][0]),
    "mul": _multiply,
    "floordiv": _divide,
    "mod": lambda o: (0, o[1][1] - 1) if o[1][0] > 0 else None,
    "min": lambda o: (min(o[0][0], o[1][0]), min(o[0][1], o[1][1])),
    "max": lambda o: (max(o[0][0], o[1][0]), max(o[0][1], o[1][1])),
    "cast": lambda o: o[0],
}
