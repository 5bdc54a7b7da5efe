"""Layouts as formulas, both ways: which element a place holds, and where an element lies.

Both directions are linear over bits, so each is a matrix of zeros and ones; bits that move together are one term.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tessera.core.layouts import Layout, bits_of

Variable = tuple[str, int]
"""A name, and of how many bits it is."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Bits `source` and on of a variable, `count` of them, that become bits `target` and on of another."""

    variable: str
    source: int
    count: int
    target: int
    bits: int

    def text(self) -> str:
        found = self.variable if not self.source else f"{self.variable} / {1 << self.source}"
        if self.source + self.count < self.bits:
            found += f" % {1 << self.count}"
        if not self.target:
            return found
        return f"{1 << self.target} * {found}" if found == self.variable else f"{1 << self.target} * ({found})"


def axis_names(shape: Sequence[int]) -> tuple[str, ...]:
    """Return what the indices of a tile are called."""
    return {1: ("i",), 2: ("row", "col")}.get(len(shape), tuple(f"i{axis}" for axis in range(len(shape))))


def element_formula(layout: Layout) -> str:
    """Return the indices of the element in register r of a lane of a warp: `row = lane / 4 + 8 * (r / 2 % 2), ...`."""
    sources: list[Variable] = [
        ("r", len(layout.registers)), ("lane", len(layout.lanes)), ("warp", len(layout.warps)),
    ]  # fmt: skip
    return _both(sources, _axes(layout), layout.bases)


def place_formula(layout: Layout) -> str:
    """Return where an element lies: `lane = row % 8 * 4 + col / 2 % 4, ...`; of what does not matter, "any".

    Where several places hold an element, that is one of them: the one whose bits that make no difference are 0.
    """
    columns = [_solve(layout.bases, 1 << bit) for bit in range(bits_of(prod(layout.shape)))]
    targets: list[Variable] = [
        ("r", len(layout.registers)), ("lane", len(layout.lanes)), ("warp", len(layout.warps)),
    ]  # fmt: skip
    text = _both(_axes(layout), [each for each in targets if each[1]], columns)
    free = sum(1 for basis in layout.bases if not basis)
    return f"{text}; {1 << free} places hold each element" if free else text


def _axes(layout: Layout) -> list[Variable]:
    """Return the axes, the one whose bits are lowest in a row-major number first."""
    return [(name, bits_of(n)) for name, n in zip(axis_names(layout.shape), layout.shape, strict=True)][::-1]


def _solve(bases: Sequence[int], wanted: int) -> int:
    """Return a set of bases whose exclusive or is `wanted`, as bits; 0 where there is none."""
    reduced: list[tuple[int, int]] = []
    for place, basis in enumerate(bases):
        value, which = basis, 1 << place
        for known, of in reduced:
            if value ^ known < value:
                value, which = value ^ known, which ^ of
        if value:
            reduced.append((value, which))
            reduced.sort(reverse=True)
    rest, found = wanted, 0
    for known, of in reduced:
        if rest ^ known < rest:
            rest, found = rest ^ known, found ^ of
    return 0 if rest else found


def _both(sources: Sequence[Variable], targets: Sequence[Variable], columns: Sequence[int]) -> str:
    """Return the formulas of all targets; `columns` says, for each bit of the sources in order, the bits it changes."""
    texts: list[str] = []
    start = 0
    for name, bits in targets:
        mask = (1 << bits) - 1
        texts.append(f"{name} = {_one(sources, [column >> start & mask for column in columns])}")
        start += bits
    # The order in which people write: rows before columns.
    if [name for name, _ in targets] == ["col", "row"]:
        texts.reverse()
    return ", ".join(texts)


def _one(sources: Sequence[Variable], columns: Sequence[int]) -> str:
    single = [column for column in columns if column]
    plain = all(not column & (column - 1) for column in single) and len(set(single)) == len(single)
    terms: list[_Run] = []
    first = 0
    for variable, bits in sources:
        for bit in range(bits):
            column = columns[first + bit]
            for target in range(column.bit_length()):
                if not column >> target & 1:
                    continue
                last = terms[-1] if terms else None
                follows = last is not None and last.variable == variable and plain
                if (
                    follows
                    and last is not None
                    and (last.source + last.count, last.target + last.count) == (bit, target)
                ):
                    terms[-1] = _Run(variable, last.source, last.count + 1, last.target, bits)
                else:
                    terms.append(_Run(variable, bit, 1, target, bits))
        first += bits
    terms.sort(key=lambda run: run.target)
    if plain:
        return " + ".join(run.text() for run in terms) or "0"
    return " ^ ".join(f"({run.text()})" for run in terms)
