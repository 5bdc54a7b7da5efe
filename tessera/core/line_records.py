"""Read the operations of the levels below Tile IR off their texts, where a line is an operation.

The texts of Target IR, LLVM IR, PTX, SASS and assembly are made by MLIR, LLVM and NVIDIA's tools, and printing them
from records would only be a worse copy of these printers.  So here the text comes first, and records are made of its
lines when they are asked for: they cost a compilation nothing, and the cache no space.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tessera.core.listing import Line
from tessera.core.record import KERNEL, OpRecord, ValueRecord, result_id

_IN_SSA: Final = ("target", "llvm")
"""Levels whose operations make values; those of the others write registers."""
_ASSIGNMENT: Final = re.compile(r"(?:(%[^=]+?)\s*=\s*)?(.*)")
_VALUE: Final = re.compile(r'%(?:[\w.$-]+(?:#\d+)?|"[^"]*")')
_COUNTED: Final = re.compile(r"(%[\w$-]+):(\d+)$")
_SSA_NAME: Final = re.compile(r'(?:(?:tail|musttail|notail)\s+)?"?([A-Za-z_][\w.]*)')
_MACHINE: Final = re.compile(r"(?:/\*[0-9a-f]+\*/)?\s*(?:@!?[\w%]+\s+)?([A-Za-z][\w.]*)(.*)")
_REGISTER: Final = re.compile(r"%[\w.]+|\bU?[RP]\d+\b")
_LABEL: Final = re.compile(r"[\w.$]+:(?!:)|\^")
_NOT_AN_OPERATION: Final = (
    ";",
    "//",
    "#",
    "!",
    "}",
    "{",
    "attributes ",
    "declare ",
    "source_filename",
    "target ",
)


def records_of_lines(level: str, lines: Sequence[Line], above: Sequence[OpRecord] = ()) -> tuple[OpRecord | None, ...]:
    """Return the operation on each line of a level; None where a line holds none: labels, directives, braces.

    above: the last stage of Tile IR: its operations are the origin of those that stand for the same of the Program
    """
    reader = _LineReader(level, above)
    return tuple(reader.read(line) for line in lines)


class _LineReader:
    """Reads one text from top to bottom; `open` are the operations whose regions the next line stands in."""

    def __init__(self, level: str, above: Sequence[OpRecord]) -> None:
        self._level = level
        self._counts: dict[str, int] = defaultdict(int)
        self._values: dict[str, str] = {}
        self._open: list[str] = []
        self._above: dict[int, list[str]] = defaultdict(list)
        self._origins: dict[tuple[int, ...], tuple[str, ...]] = {}
        for record in above:
            for number in record.numbers:
                self._above[number].append(record.id)

    def read(self, line: Line) -> OpRecord | None:
        """Return the operation on a line."""
        text = line.text.strip()
        if text.startswith("}") and self._open:
            self._open.pop()
        record = self._operation(text, line) if self._is_operation(text) else None
        if text.endswith("{"):
            self._open.append(record.id if record is not None else self._open[-1] if self._open else "")
        return record

    def _is_operation(self, text: str) -> bool:
        if not text or text.startswith(_NOT_AN_OPERATION) or _LABEL.match(text):
            return False
        return self._level in _IN_SSA or not text.startswith(".")

    def _operation(self, text: str, line: Line) -> OpRecord | None:
        identity = self._identity(line.ops)
        parent = self._open[-1] if self._open else ""
        if self._level not in _IN_SSA:
            found = _MACHINE.match(text)
            if found is None:
                return None
            name, rest = found.groups()
            registers = tuple(str(register) for register in _REGISTER.findall(rest))
            return OpRecord(
                identity, name, parent, 0, registers, spans=line.spans, numbers=line.ops,
                origin=self._origin(line.ops),
            )  # fmt: skip
        made, said = _ASSIGNMENT.fullmatch(text).groups()  # pyright: ignore[reportOptionalMemberAccess] - it matches all
        name = _SSA_NAME.match(said)
        if name is None:
            return None
        values: list[str] = _VALUE.findall(said)
        operands = tuple([self._values.get(value, value) for value in values])
        kind = said.rpartition(" : ")[2].rpartition("-> ")[2] if self._level == "target" and " : " in said else ""
        results: list[ValueRecord] = []
        for number, value in enumerate(_names(made or "")):
            results.append(ValueRecord(result_id(identity, number), kind.rstrip(" {"), value))
            self._values[value] = results[-1].id
        return OpRecord(
            identity, name[1], parent, 0, operands, tuple(results), spans=line.spans, numbers=line.ops,
            origin=self._origin(line.ops),
        )  # fmt: skip

    def _identity(self, numbers: tuple[int, ...]) -> str:
        base = str(numbers[0]) if numbers else KERNEL
        self._counts[base] += 1
        return f"{base}.{self._level}.{self._counts[base]}"

    def _origin(self, numbers: tuple[int, ...]) -> tuple[str, ...]:
        found = self._origins.get(numbers)
        if found is None:
            known = dict.fromkeys(identity for number in numbers for identity in self._above[number])
            found = self._origins[numbers] = tuple(known)
        return found


def _names(made: str) -> list[str]:
    """The values in front of `=`: `%5`, `%6:2` (which is `%6#0` and `%6#1`), `%a, %b`."""
    counted = _COUNTED.match(made)
    if counted is not None:
        return [f"{counted[1]}#{number}" for number in range(int(counted[2]))]
    return _VALUE.findall(made)
