"""Figures of both sides of a diff: what the compiler and the disassembler say, the cost model, and measured times."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera.core.schedule.plan import Plan
from tessera.core.schedule.text import bytes_moved, operations
from tessera.performance.cost_model import predict
from tessera.performance.device_model import this_machine
from tessera.performance.launch_shape import bound_extents, launch_shape
from tessera.performance.work_count import count_work
from tessera.profiling.comparison import Comparison as Agreements
from tessera.profiling.comparison import compare
from tessera.profiling.expected import wrong_outputs
from tessera.profiling.wrong_elements import WrongElements
from tessera.session.compiled import Compiled
from tessera.viz.base.code_figures import FigurePair, figures_of_code
from tessera.viz.diffs.model import Verdict
from tessera.viz.diffs.sides import Subject
from tessera.viz.stage_alignment.changes import Comparison, DiffLine

_MACHINE: Final = ("sass", "asm", "ptx")
"""Levels whose lines are instructions, the best first."""


def figures_of(before: Subject, after: Subject, shown: Comparison) -> tuple[FigurePair, ...]:
    """Return what differs in figures; without compilations, the operations alone."""
    old, new = ({line.record for line in side} - {""} for side in (shown.before, shown.after))
    found = [FigurePair("operations shown", "", len(old), len(new), 0)]
    if before.graph is not None and after.graph is not None and before.graph.plan is not after.graph.plan:
        return (*found, *_of_plans(before.graph.plan, after.graph.plan))
    if before.compiled is None or after.compiled is None or before.compiled is after.compiled:
        return tuple(found)
    return (*found, *figures_of_code(before.compiled, after.compiled))


def _of_plans(before: Plan, after: Plan) -> list[FigurePair]:
    """Return what two schedules cost."""
    pairs: dict[tuple[str, str], Callable[[Plan], int]] = {
        ("kernels", ""): lambda plan: len(plan.groups),
        ("moved through memory", "bytes"): lambda plan: sum(map(bytes_moved, plan.groups)),
        ("floating-point operations", ""): lambda plan: sum(map(operations, plan.groups)),
    }
    return [FigurePair(name, unit, count(before), count(after)) for (name, unit), count in pairs.items()]


def measured(
    before: Subject, after: Subject, args: Sequence[object], expect: object = None
) -> tuple[tuple[FigurePair, ...], Verdict | None]:
    """Time both kernels on copies of `args`, in turns, and ask the cost model; say whether their outputs are right.

    Raises NotAvailableYet where one runs on a GPU and the other does not, BadExpectation, and what a launch raises.
    """
    if before.kernel is None or after.kernel is None:
        return (FigurePair("time of a launch", "µs", None, None, note="not measured: a side is no kernel"),), None
    found = compare(before.kernel, after.kernel, args)
    verdict = Verdict(found.verdict, _level(found), tuple(map(str, found.agreements)))
    if expect is not None:
        kernels = (before.kernel, after.kernel)
        wrong = [wrong_outputs(kernel, args, expect, named_like=before.kernel) for kernel in kernels]
        verdict = _of_expected(verdict, wrong)
    times = [_microseconds(statistics.median(times)) for times in (found.original, found.other)]
    expected = [_expected(side, args) for side in (before, after)]
    figures = (
        FigurePair("time of a launch", "µs", times[0], times[1]),
        FigurePair("time the cost model expects", "µs", expected[0], expected[1], note="not known"),
    )
    return figures, verdict


def _level(comparison: Agreements) -> str:
    return "good" if comparison.same else "doubtful" if comparison.agrees else "bad"


def _of_expected(verdict: Verdict, wrong: Sequence[Sequence[WrongElements]]) -> Verdict:
    """Return the verdict on results of which it is known what they should be."""
    sides = [name for name, outputs in zip(("before", "after"), wrong, strict=True) if outputs]
    details = [
        f"{name}: {'; '.join(map(str, outputs)) or 'as expected'}"
        for name, outputs in zip(("before", "after"), wrong, strict=True)
    ]
    text = f"wrong {' and '.join(sides)}" if sides else f"as expected, {verdict.text}"
    return Verdict(text, "bad" if sides else verdict.level, (*details, *verdict.details))


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
