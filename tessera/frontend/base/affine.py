"""Affine forms of integers while a kernel is built: each as a sum of constants times other values.

It answers three questions: is the extent of a slice `a:b` a constant, which extents is a lane index compared with (so
how many lanes does a call need), and which axes does a bare lane or group index address.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.program.expressions import OPERATIONS, Expression, make
from tessera.core.program.program import Attribute, Value
from tessera.core.program.types import Array, Scalar

Terms = dict[Value, int]
Identity = tuple[str, int | None]
"""What an id is of, and along which axis; None: over all axes."""
_LANES: Final = ("thread", "lane")
_GRID: Final = ("thread", "group", "grid_groups")
_AXES: Final = 3
_DEEPEST: Final = 32
"""Operations inside one another of an expression that is still followed."""


@dataclass
class Affine:
    """Linear forms of integer scalars, and the uses of lane and group ids that tell a launch domain.

    Forms do not wrap: `c + 32` is 32 more than an i32 `c` even where i32 has no such number, as a slice `c:c+32` means.

    group: lanes a group along each axis, or None
    expressions: what values are that are made of numbers and extents alone
    compared, indexed: bounds of a lane's index along an axis of the launch (None: over all axes), in program order
    """

    forms: dict[Value, tuple[Terms, int]] = field(default_factory=dict[Value, tuple[Terms, int]])
    symbols: dict[Value, str] = field(default_factory=dict[Value, str])
    ids: dict[Value, Identity] = field(default_factory=dict[Value, Identity])
    expressions: dict[Value, Expression] = field(default_factory=dict[Value, Expression])
    compared: list[tuple[int | None, Expression]] = field(default_factory=list[tuple[int | None, Expression]])
    indexed: list[tuple[int | None, Expression]] = field(default_factory=list[tuple[int | None, Expression]])
    group_indexed: list[Expression] = field(default_factory=list[Expression])
    group: tuple[int, ...] | None = None
    _depths: dict[Value, int] = field(default_factory=dict[Value, int])

    @property
    def grid_axes(self) -> set[int]:
        """The axes of the grid along which an index is used."""
        return {axis for of, axis in self.ids.values() if of in _GRID and axis is not None}

    @property
    def has_axes(self) -> bool:
        """Return whether an index along the second or third axis of the grid is used."""
        return any(self.grid_axes)

    @property
    def counts_groups(self) -> bool:
        """Return whether groups do different things, and do not share work by how many of them there are."""
        used = {of for of, _ in self.ids.values()}
        return bool(used & {"group", "thread"}) and "grid_groups" not in used

    def form(self, value: Value) -> tuple[Terms, int]:
        """The linear form of `value`; a value nothing is known of is one term."""
        return self.forms.get(value, ({value: 1}, 0))

    def learn(self, opcode: str, operands: Sequence[Value], result: Value, attributes: Mapping[str, Attribute]) -> None:
        """Note the form of a new integer scalar."""
        if not isinstance(result.type, Scalar) or not result.type.dtype.is_integer:
            return
        self._learn_expression(opcode, operands, result, attributes)
        if opcode == "const":
            self.forms[result] = ({}, int(attributes["value"]))  # type: ignore[arg-type]
        elif opcode == "dim":
            self.symbols[result] = str(attributes["symbol"])
            first = next((v for v, s in self.symbols.items() if s == attributes["symbol"]), result)
            self.forms[result] = ({first: 1}, 0)
        elif opcode == "id":
            axis = attributes.get("axis")
            identity = (str(attributes["of"]), axis if isinstance(axis, int) else None)
            first = next((v for v, known in self.ids.items() if known == identity), result)
            self.ids[result] = identity
            self.forms[result] = ({first: 1}, 0)
        elif opcode == "cast" and self._is_wider(result, operands[0]):
            self.forms[result] = self.form(operands[0])
        elif opcode in ("add", "sub", "mul"):
            self._learn_arithmetic(opcode, operands, result)

    def _learn_expression(
        self, opcode: str, operands: Sequence[Value], result: Value, attributes: Mapping[str, Attribute]
    ) -> None:
        known = [self.expressions[operand] for operand in operands if operand in self.expressions]
        if opcode == "const":
            self.expressions[result] = int(attributes["value"])  # type: ignore[arg-type]
        elif opcode == "dim":
            self.expressions[result] = str(attributes["symbol"])
        elif len(known) != len(operands):
            return
        elif opcode == "cast" and self._is_wider(result, operands[0]):
            self.expressions[result] = known[0]
        elif opcode in OPERATIONS:
            depth = 1 + max(self._depths.get(operand, 0) for operand in operands)
            if depth <= _DEEPEST:
                self.expressions[result], self._depths[result] = make(opcode, *known), depth

    @staticmethod
    def _is_wider(result: Value, operand: Value) -> bool:
        """Return whether an integer of `operand`'s type is the same number in the type of `result`, an integer too."""
        narrow, wide = operand.type.dtype, result.type.dtype
        return narrow.is_integer and narrow.bits < wide.bits and wide.kind in ("int", narrow.kind)

    def _learn_arithmetic(self, opcode: str, operands: Sequence[Value], result: Value) -> None:
        (a, k), (b, m) = self.form(operands[0]), self.form(operands[1])
        if opcode == "mul":
            if a and b:
                return
            terms, scale, rest = (a, m, k * m) if not b else (b, k, k * m)
            self.forms[result] = ({v: c * scale for v, c in terms.items() if c * scale}, rest)
            return
        sign = 1 if opcode == "add" else -1
        total = dict(a)
        for value, coefficient in b.items():
            total[value] = total.get(value, 0) + sign * coefficient
        self.forms[result] = ({v: c for v, c in total.items() if c}, k + sign * m)

    def difference(self, a: Value, b: Value) -> tuple[Terms, int]:
        """The linear form of `a - b`."""
        (x, k), (y, m) = self.form(a), self.form(b)
        total = dict(x)
        for value, coefficient in y.items():
            total[value] = total.get(value, 0) - coefficient
        return {v: c for v, c in total.items() if c}, k - m

    def constant_part(self, value: Value) -> tuple[list[str] | None, int]:
        """The symbols that `value` is a sum of, and the constant; None when other values take part."""
        return self.symbols_of(*self.form(value))

    def symbols_of(self, terms: Terms, rest: int) -> tuple[list[str] | None, int]:
        """As `constant_part`, for a form."""
        if any(v not in self.symbols for v in terms):
            return None, rest
        return [self.symbols[v] for v in terms], rest

    def note_comparison(self, predicate: str, a: Value, b: Value) -> None:
        """Remember an extent that a lane index is compared with, and so how many lanes there must be."""
        if predicate in ("eq", "ne"):
            return
        for index, limit, at_most in ((a, b, "le"), (b, a, "ge")):
            found, bound = self.lane(index), self.expressions.get(limit)
            if found is None or bound is None:
                continue
            axis, offset = found
            # `i > n - 1` parts the same lanes as `i <= n - 1`; `i > 0` sets no limit.
            above = predicate == {"le": "gt", "ge": "lt"}[at_most] and not isinstance(bound, int)
            needed = make("add", bound, max(0, -offset) + (predicate == at_most or above))
            match needed:
                case ("sub", str() as whole, int()):
                    needed = whole  # `if i < n - 1` leaves out lanes that other statements may need
                case _:
                    pass
            if not isinstance(needed, int) or needed > 0:
                self.compared.append((axis, needed))

    def note_access(self, memory: Value, starts: Sequence[Value]) -> None:
        """Remember the extents of axes that a bare lane or group index addresses."""
        if not isinstance(memory.type, Array):
            return
        for extent, start in zip(memory.type.shape, starts, strict=True):
            found = self.lane(start)
            if found is not None:
                self.indexed.append((found[0], extent))
            if self._is_group(start):
                self.group_indexed.append(extent)

    def lane(self, value: Value) -> tuple[int | None, int] | None:
        """The axis of the launch along which `value` is the lane's index, and the constant added; None for others.

        In a kernel with groups that is `launch.thread_id()` or lane + group * lanes; without, any lane index.  The
        axis is None for the index over all axes.
        """
        terms, rest = self.form(value)
        if not terms or any(v not in self.ids for v in terms):
            return None
        parts = {self.ids[v]: c for v, c in terms.items()}
        if self.group is None:
            ((of, _), coefficient), *others = parts.items()
            return (None, rest) if of in _LANES and coefficient == 1 and not others else None
        extents = (*self.group, 1, 1)[:_AXES]
        for axis in (None, 0, 1, 2):
            lanes = math.prod(extents) if axis is None else extents[axis]
            # Of groups with one axis, lanes are along it; of one lane along an axis, its index is the group's.
            spellings: list[dict[Identity, int]] = [{("thread", axis): 1}, {("lane", axis): 1, ("group", axis): lanes}]
            if axis == 0 and len(self.group) == 1:
                spellings.append({("lane", None): 1, ("group", 0): lanes})
            if axis is not None and lanes == 1 and len(self.group) > 1:
                spellings.append({("group", axis): 1})
            if parts in spellings:
                return axis, rest
        return (None, rest) if parts == {("lane", None): 1, ("group", 0): math.prod(extents)} else None

    def bounds(self, axis: int | None) -> tuple[Expression, ...]:
        """Return what a lane's index along an axis is compared with, else what it indexes; None: over all axes."""
        one_axis = axis is None and len(self.group or (1,)) == 1
        for known in (self.compared, self.indexed):
            found = [bound for along, bound in known if along == axis or (one_axis and along == 0)]
            if found:
                return tuple(dict.fromkeys(found))
        return ()

    def _is_group(self, value: Value) -> bool:
        terms, rest = self.form(value)
        return rest == 0 and [(self.ids[v][0], c) if v in self.ids else None for v, c in terms.items()] == [
            ("group", 1)
        ]
