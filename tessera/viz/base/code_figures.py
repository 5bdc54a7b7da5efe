"""Figures of two compilations side by side: what each uses of the machine, and its instructions by class."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.resources import ResourceReport
from tessera.session.compiled import Compiled

INSTRUCTIONS: Final = "instructions"
_CLASSES: Final[Mapping[str, re.Pattern[str]]] = {
    "matrix products": re.compile(r"[HIQDBF]?G?MMA|HMMA|IMMA|DMMA|QMMA|OMMA|UTC[A-Z]*MMA"),
    "loads": re.compile(r"LD[A-Z]*|UTMALDG|UBLKCP|ULDC?|UTMAPF"),
    "stores": re.compile(r"ST[A-Z]*|UTMASTG|RED[A-Z]*|UTMAREDG|ATOM[A-Z]*"),
    "barriers": re.compile(
        r"BAR|SYNCS|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|ARRIVES|WARPSYNC|UCGABAR_[A-Z]*|ERRBAR|UTMACMDFLUSH"
    ),
}
"""Classes of SASS instructions, by the first part of their names; the first that fits, but barriers go before loads."""
_X86: Final[Mapping[str, re.Pattern[str]]] = {
    "multiply-adds": re.compile(r"vf(?:n)?m(?:add|sub)\w*|vdp\w+|tdp\w+"),
    "loads": re.compile(r"v?mov\w*|v?broadcast\w*|vgather\w*|tileload\w*"),
    "stores": re.compile(r"v?mov\w*|vscatter\w*|tilestore\w*"),
    "calls": re.compile(r"callq?"),
}


@dataclass(frozen=True, slots=True)
class FigurePair:
    """A figure of both sides; None: not measured, or not known, and why in `note`.

    better: -1 where less is better, 1 where more is, 0 where neither
    """

    name: str
    unit: str
    before: float | None
    after: float | None
    better: int = -1
    note: str = ""

    @property
    def told_before(self) -> str:
        """The figure before, with its unit."""
        return self._told(self.before)

    @property
    def told_after(self) -> str:
        """The figure after, with its unit."""
        return self._told(self.after)

    @property
    def worse(self) -> bool:
        """The second side is known to be the worse one."""
        return self.before is not None and self.after is not None and self.better * (self.after - self.before) < 0

    @property
    def delta(self) -> str:
        """The difference with its sign; "" where one is not known, "=" where there is none."""
        if self.before is None or self.after is None:
            return ""
        difference = self.after - self.before
        return f"{difference:+,g}" if difference else "="

    def _told(self, value: float | None) -> str:
        if value is None:
            return self.note or "not measured"
        return f"{value:,g} {self.unit}".strip()


def figures_of_code(before: Compiled, after: Compiled) -> list[FigurePair]:
    """Return the resources of both, and their instructions by class."""
    reports = [compiled.resources() for compiled in (before, after)]
    found = [
        FigurePair(name, unit, _sum(reports[0], field), _sum(reports[1], field))
        for name, unit, field in (
            ("registers of a lane", "", "registers"), ("spilled", "bytes", "spill_bytes"),
            ("shared memory of a block", "bytes", "shared_bytes"), ("code", "bytes", "code_bytes"),
        )
        if any(_sum(report, field) is not None for report in reports)
    ]  # fmt: skip
    occupancy = [None if report.occupancy is None else round(100 * report.occupancy.fraction) for report in reports]
    if occupancy != [None, None]:
        found.append(FigurePair("occupancy", "%", occupancy[0], occupancy[1], 1))
    counts = [
        _of_sass(report) if compiled.target.kind.on_gpu else _of_assembly(compiled)
        for compiled, report in zip((before, after), reports, strict=True)
    ]
    # Classes of different machines are not the same things.
    alike = before.target.kind is after.target.kind
    names = dict.fromkeys(name for one in counts for name in one if alike or name == INSTRUCTIONS)
    return [*found, *(FigurePair(name, "", counts[0].get(name), counts[1].get(name)) for name in names)]


def _sum(report: ResourceReport, field: str) -> int | None:
    """Return a figure of a kernel: of its phases the largest, but the code of all together."""
    values: list[int | None] = [getattr(each, field) for each in (report, *report.next_phases)]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if field == "code_bytes" else max(known)


def _of_sass(report: ResourceReport) -> dict[str, int]:
    """Return how many instructions of each class the machine code has; none where it cannot be read."""
    reports = (report, *report.next_phases)
    total = sum(each.total for each in reports)
    if not total:
        return {}
    counts: Counter[str] = Counter()
    for each in reports:
        for kind in each.instructions:
            counts[class_of(kind.name.split(".")[0])] += kind.count
    return {**{name: counts[name] for name in _CLASSES}, INSTRUCTIONS: total}


def class_of(name: str) -> str:
    """Return the class of a SASS instruction by the first part of its name, "" for none."""
    if _CLASSES["barriers"].fullmatch(name):
        return "barriers"
    return next((known for known, pattern in _CLASSES.items() if pattern.fullmatch(name)), "")


def _of_assembly(compiled: Compiled) -> dict[str, int]:
    """Count the instructions of x86's assembly, in AT&T's order: the destination last."""
    counts: Counter[str] = Counter()
    for stage in compiled.stages:
        if stage.level != "asm":
            continue
        names = {record.id: record.name for record in stage.records}
        for line in stage.lines:
            name = names.get(line.record, "")
            if name:
                counts[INSTRUCTIONS] += 1
                counts.update(x86_classes(name, line.text))
    return {name: counts[name] for name in (*_X86, INSTRUCTIONS)} if counts else {}


def x86_classes(name: str, text: str) -> list[str]:
    """Return the classes of an instruction of x86, of which a multiply-add that loads has two."""
    operands = text.partition(name)[2].strip()
    into_memory = operands.endswith((")", "}")) and "(" in operands.rpartition(", ")[2]
    reads = "(" in operands and not into_memory
    found = [known for known in ("multiply-adds", "calls") if _X86[known].fullmatch(name)]
    if into_memory and _X86["stores"].fullmatch(name):
        found.append("stores")
    elif reads and not name.startswith(("lea", "prefetch", "call")):
        found.append("loads")
    return found
