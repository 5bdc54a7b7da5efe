"""What the builder knows of integers: each as a sum of constants times other values.

It answers three questions: is the extent of a slice `a:b` a constant, which extents is a lane index compared with (so
how many lanes does a call need), and which axes does a bare lane or group index address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tessera.core.program.program import Attribute, Value
from tessera.core.program.types import Array, Scalar

Terms = dict[Value, int]
_LANES = ("thread", "lane")
_GRID = ("thread", "group", "grid_groups")


@dataclass
class Affine:
    """Linear forms of integer scalars, and the uses of lane and group ids that tell a launch domain.

    Forms do not wrap: `c + 32` is 32 more than an i32 `c` even where i32 has no such number, as a slice `c:c+32` means.
    """

    forms: dict[Value, tuple[Terms, int]] = field(default_factory=dict[Value, tuple[Terms, int]])
    symbols: dict[Value, str] = field(default_factory=dict[Value, str])
    ids: dict[Value, str] = field(default_factory=dict[Value, str])
    compared: list[int | str] = field(default_factory=list[int | str])
    indexed: list[int | str] = field(default_factory=list[int | str])
    group_indexed: list[int | str] = field(default_factory=list[int | str])
    group_lanes: int | None = None

    @property
    def has_axes(self) -> bool:
        """Whether an index along the second or third axis of the grid is used."""
        names = (name.split(":") for name in self.ids.values())
        return any(of in _GRID and axis not in ("None", "0") for of, axis in names)

    @property
    def counts_groups(self) -> bool:
        """Whether groups do different things, and do not share work by how many of them there are."""
        used = {name.split(":")[0] for name in self.ids.values()}
        return bool(used & {"group", "thread"}) and "grid_groups" not in used

    def form(self, value: Value) -> tuple[Terms, int]:
        """The linear form of `value`; a value nothing is known of is one term."""
        return self.forms.get(value, ({value: 1}, 0))

    def learn(self, opcode: str, operands: Sequence[Value], result: Value, attributes: Mapping[str, Attribute]) -> None:
        """Note the form of a new integer scalar."""
        if not isinstance(result.type, Scalar) or not result.type.dtype.is_integer:
            return
        if opcode == "const":
            self.forms[result] = ({}, int(attributes["value"]))  # type: ignore[arg-type]
        elif opcode == "dim":
            self.symbols[result] = str(attributes["symbol"])
            first = next((v for v, s in self.symbols.items() if s == attributes["symbol"]), result)
            self.forms[result] = ({first: 1}, 0)
        elif opcode == "id":
            name = f"{attributes['of']}:{attributes.get('axis')}"
            first = next((v for v, s in self.ids.items() if s == name), result)
            self.ids[result] = name
            self.forms[result] = ({first: 1}, 0)
        elif opcode == "cast" and self._is_wider(result, operands[0]):
            self.forms[result] = self.form(operands[0])
        elif opcode in ("add", "sub", "mul"):
            self._learn_arithmetic(opcode, operands, result)

    @staticmethod
    def _is_wider(result: Value, operand: Value) -> bool:
        """Whether an integer of `operand`'s type is the same number in the type of `result`, an integer too."""
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
        """Remember an extent that a lane index is compared with."""
        if predicate in ("eq", "ne"):
            return
        for index, bound in ((a, b), (b, a)):
            symbols, rest = self.constant_part(bound)
            if not self.is_lane(index) or symbols is None:
                continue
            if len(symbols) == 1:
                self.compared.append(symbols[0])
            elif not symbols and rest > 0:
                self.compared.append(rest)

    def note_access(self, memory: Value, starts: Sequence[Value]) -> None:
        """Remember the extents of axes that a bare lane or group index addresses."""
        if not isinstance(memory.type, Array):
            return
        for extent, start in zip(memory.type.shape, starts, strict=True):
            if self.is_lane(start):
                self.indexed.append(extent)
            elif self._is_single(start, "group:"):
                self.group_indexed.append(extent)

    def is_lane(self, value: Value) -> bool:
        """True for the lane's index within the launch, plus a constant.

        In a kernel with groups that is `launch.thread_id()` or lane + group * lanes; without, any lane index.
        """
        terms, _ = self.form(value)
        kinds = {self.ids[v].split(":")[0]: c for v, c in terms.items() if v in self.ids}
        if len(kinds) != len(terms):
            return False
        if self.group_lanes is None:
            return list(kinds.values()) == [1] and next(iter(kinds)) in _LANES
        return kinds in ({"thread": 1}, {"lane": 1, "group": self.group_lanes})

    def _is_single(self, value: Value, prefix: str) -> bool:
        terms, rest = self.form(value)
        return (
            rest == 0
            and len(terms) == 1
            and all(c == 1 and self.ids.get(v, "").startswith(prefix) for v, c in terms.items())
        )
