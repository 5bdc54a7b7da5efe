"""Figures of both sides of a diff: what the compiler and the disassembler say, the cost model, and measured times."""

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.resources import ResourceReport
from tessera.performance.cost_model import predict
from tessera.performance.device_model import this_machine
from tessera.performance.launch_shape import bound_extents, launch_shape
from tessera.performance.work_count import count_work
from tessera.profiling.comparison import compare
from tessera.session.compiled import Compiled
from tessera.viz.diffs.model import Comparison, DiffLine, FigurePair
from tessera.viz.diffs.sides import Subject

_ALL: Final = "instructions"
_CLASSES: Final[Mapping[str, re.Pattern[str]]] = {
    "matrix products": re.compile(r"[HIQDBF]?G?MMA|HMMA|IMMA|DMMA|QMMA|OMMA|UTC[A-Z]*MMA"),
    "loads": re.compile(r"LD[A-Z]*|UTMALDG|UBLKCP|ULDC?|UTMAPF"),
    "stores": re.compile(r"ST[A-Z]*|UTMASTG|RED[A-Z]*|UTMAREDG|ATOM[A-Z]*"),
    "barriers": re.compile(
        r"BAR|SYNCS|DEPBAR|LDGDEPBAR|MEMBAR|FENCE|ARRIVES|WARPSYNC|UCGABAR_[A-Z]*|ERRBAR|UTMACMDFLUSH"
    ),
}
"""Classes of SASS instructions, by the first part of their names; the first that fits, but barriers go before loads."""
_MACHINE: Final = ("sass", "asm", "ptx")
"""Levels whose lines are instructions, the best first."""
_X86: Final[Mapping[str, re.Pattern[str]]] = {
    "multiply-adds": re.compile(r"vf(?:n)?m(?:add|sub)\w*|vdp\w+|tdp\w+"),
    "loads": re.compile(r"v?mov\w*|v?broadcast\w*|vgather\w*|tileload\w*"),
    "stores": re.compile(r"v?mov\w*|vscatter\w*|tilestore\w*"),
    "calls": re.compile(r"callq?"),
}


def figures_of(before: Subject, after: Subject, shown: Comparison) -> tuple[FigurePair, ...]:
    """Return what differs in figures; without compilations, the operations alone."""
    old, new = ({line.record for line in side} - {""} for side in (shown.before, shown.after))
    found = [FigurePair("operations shown", "", len(old), len(new), 0)]
    if before.compiled is None or after.compiled is None or before.compiled is after.compiled:
        return tuple(found)
    return (*found, *_of_code(before.compiled, after.compiled))


def measured(before: Subject, after: Subject, args: Sequence[object]) -> tuple[tuple[FigurePair, ...], tuple[str, ...]]:
    """Time both kernels on copies of `args`, in turns, and ask the cost model; say whether their outputs agree.

    Raises NotAvailableYet where one runs on a GPU and the other does not, and what a launch raises.
    """
    if before.kernel is None or after.kernel is None:
        return (FigurePair("time of a launch", "us", None, None, note="not measured: a side is no kernel"),), ()
    found = compare(before.kernel, after.kernel, args)
    times = [_microseconds(statistics.median(times)) for times in (found.original, found.other)]
    expected = [_expected(side, args) for side in (before, after)]
    figures = (
        FigurePair("time of a launch", "us", times[0], times[1]),
        FigurePair("time the cost model expects", "us", expected[0], expected[1], note="not known"),
    )
    return figures, tuple(map(str, found.agreements))


def _expected(side: Subject, args: Sequence[object]) -> float | None:
    """Return the time of a launch by the cost model; None for a kernel in phases, whose parts it does not know."""
    compiled = side.compiled
    if compiled is None or compiled.phases:
        return None
    shape = launch_shape(compiled.artifact, compiled.program, bound_extents(compiled.program, side.arguments))
    machine = this_machine(compiled.target.kind, args)
    return _microseconds(predict(count_work(compiled.program, shape), machine, shape.lanes).seconds)


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 2)


def _of_code(before: Compiled, after: Compiled) -> list[FigurePair]:
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
    counts = [_instructions(compiled, report) for compiled, report in zip((before, after), reports, strict=True)]
    # Classes of different machines are not the same things.
    alike = before.target.kind is after.target.kind
    names = dict.fromkeys(name for one in counts for name in one if alike or name == _ALL)
    return [*found, *(FigurePair(name, "", counts[0].get(name), counts[1].get(name)) for name in names)]


def instructions_of_operations(compiled: Compiled) -> dict[int, int]:
    """Count the instructions of the machine code (or of PTX, without its tools) by operations of the Program.

    One that stands for several counts for the first; those of the compiler's own making count for none.
    """
    levels = [level for level in _MACHINE if level in compiled.levels]
    counts: Counter[int] = Counter()
    for stage in compiled.stages:
        if levels and stage.level == levels[0]:
            counts.update(record.numbers[0] for record in stage.records if record.numbers)
    return counts


def counts_of_lines(lines: Sequence[DiffLine], counts: Mapping[int, int]) -> list[int]:
    """Return the instructions of each line's operations, on the first line that names them; 0: none."""
    left = dict(counts)
    return [sum(left.pop(op, 0) for op in line.ops) for line in lines]


def _sum(report: ResourceReport, field: str) -> int | None:
    """Return a figure of a kernel: of its phases the largest, but the code of all together."""
    values: list[int | None] = [getattr(each, field) for each in (report, *report.next_phases)]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known) if field == "code_bytes" else max(known)


def _instructions(compiled: Compiled, report: ResourceReport) -> dict[str, int]:
    """Return how many instructions of each class the machine code has; none where it cannot be read."""
    reports = (report, *report.next_phases)
    if compiled.target.kind.on_gpu:
        total = sum(each.total for each in reports)
        if not total:
            return {}
        counts: Counter[str] = Counter()
        for each in reports:
            for kind in each.instructions:
                counts[class_of(kind.name.split(".")[0])] += kind.count
        return {**{name: counts[name] for name in _CLASSES}, _ALL: total}
    return _of_assembly(compiled)


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
                counts[_ALL] += 1
                counts.update(x86_classes(name, line.text))
    return {name: counts[name] for name in (*_X86, _ALL)} if counts else {}


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
