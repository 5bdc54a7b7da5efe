"""Compile an edit, run it beside the original on copies of the arguments, and tell what became of it."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.errors.base import TesseraError, render
from tessera.core.stage_diff import KEPT, KINDS, aligned, diff
from tessera.kernels.kernel import Kernel
from tessera.kernels.target_choice import target_at_hand
from tessera.profiling.comparison import compare
from tessera.runtime.binding.grid import Grid
from tessera.session.compiled import Compiled
from tessera.viz.base.code_figures import INSTRUCTIONS, figures_of_code
from tessera.viz.editing import drafts


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure of both kernels, as text; `worse` where a larger number is worse and this one is larger."""

    name: str
    before: str
    after: str
    worse: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an edit.

    error: the mistake, with its line and caret; line: where in the edited text (1-based); empty and 0: it compiled
    agreements: each output against the original's; same: all bits are; None where it was not run
    ratio: how many times as fast as the original; None where it was not run
    changes: operations of the last Tile IR by kind of change; text_diff: of the edited text
    cell: the kernel's own lines after the edit, to be taken back to the cell; empty for IR
    """

    level: str
    error: str = ""
    line: int = 0
    agreements: tuple[str, ...] = ()
    same: bool | None = None
    ratio: float | None = None
    figures: tuple[FigureRow, ...] = ()
    changes: Mapping[str, int] = ()  # pyright: ignore[reportAssignmentType] - an empty mapping, which is never written
    text_diff: str = ""
    cell: str = ""
    note: str = ""


class Editor:
    """A kernel, arguments to try it on, and its texts as they were.

    latest: the last edit that compiled, as a kernel
    """

    def __init__(self, kernel: Kernel, values: Sequence[object], grid: Grid | None = None) -> None:
        self.kernel: Final = kernel
        self._grid: Final = grid
        self.values: Final = tuple(values)
        self.latest: Kernel | None = None
        self.texts: Final[Mapping[str, str]] = {
            drafts.SOURCE: drafts.own_lines(kernel),
            drafts.TILE: kernel.compile_quietly(*self.values).mlir(),
            drafts.PTX: drafts.ptx_of(kernel, self.values),
        }

    def apply(self, level: str, given: str | Mapping[str, object]) -> Outcome:
        """Compile an edit, compare and time it.  Mistakes in the edit are part of the outcome.

        given: the text, or for "options" their values by name
        """
        text = given if isinstance(given, str) else ""
        try:
            edited = self._kernel(level, given)
            target = drafts.ptx_target(self.kernel, self.values) if level == drafts.PTX else None
            before = self.kernel.compile_quietly(*self.values, target=target)
            after = edited.compile_quietly(*self.values, target=target)
            self.latest = edited
            return self._told(level, text, edited, before, after)
        except TesseraError as mistake:
            return Outcome(level, render(mistake), mistake.span.line)

    def _kernel(self, level: str, given: str | Mapping[str, object]) -> Kernel:
        if not isinstance(given, str):
            return drafts.with_values(self.kernel, given)
        return drafts.from_source(self.kernel, given) if level == drafts.SOURCE else self.kernel.with_ir(given)

    def _told(self, level: str, text: str, edited: Kernel, before: Compiled, after: Compiled) -> Outcome:
        note, ratio, same, agreements = "", None, None, ()
        times: tuple[FigureRow, ...] = ()
        wanted = self.kernel.target_for(self.values)
        if before.target.kind is not wanted.kind:
            note = f"compiled for {before.target.name}, and not run: the kernel runs on {wanted.name}"
        else:
            target_at_hand(self.kernel.options, wanted, self.values)
            found = compare(self.kernel, edited, self.values, self._grid)
            ratio, same, agreements = found.ratio, found.same, tuple(map(str, found.agreements))
            times = (_time("time of a launch", found.original, found.other),)
        return Outcome(
            level, "", 0, agreements, same, ratio, (*times, *_figures(before, after)), _changes(before, after),
            _text_diff(self.texts.get(level, ""), text), self._cell(level, text, edited), note,
        )  # fmt: skip

    def _cell(self, level: str, text: str, edited: Kernel) -> str:
        """Return the kernel's own lines with the edit; options become keywords of the decorator's `variant`."""
        if level == drafts.SOURCE:
            return text.rstrip("\n")
        if level != drafts.OPTIONS:
            return ""
        own, name = self.texts[drafts.SOURCE], self.kernel.source.name
        chosen = {n: v for n, v in edited.options.constants.items() if self.kernel.options.constants.get(n) != v}
        options = ", ".join(f"{option}={value!r}" for option, value in chosen.items())
        return f"{own}\n\n{name} = {name}.variant({options})" if chosen else own


def _time(name: str, before: Sequence[float], after: Sequence[float]) -> FigureRow:
    one, other = (sorted(times)[len(times) // 2] for times in (before, after))
    return FigureRow(name, f"{one * 1e6:,.1f} us", f"{other * 1e6:,.1f} us", other > one)


def _figures(before: Compiled, after: Compiled) -> tuple[FigureRow, ...]:
    """Return what differs in what the code uses of the machine, and how many instructions it has."""
    return tuple(
        FigureRow(
            pair.name, pair.told_before, pair.told_after,
            pair.worse,
        )
        for pair in figures_of_code(before, after)
        if pair.name == INSTRUCTIONS or pair.before != pair.after
    )  # fmt: skip


def _changes(before: Compiled, after: Compiled) -> dict[str, int]:
    """Count the operations of the last Tile IR by kind of change; those that are the same are left out."""
    last = [next(s for s in reversed(each.stages) if s.level == "tile") for each in (before, after)]
    changes = diff(last[0].records, aligned(last[0].records, last[1].records))
    return {kind: sum(change.kind == kind for change in changes) for kind in KINDS if kind != KEPT}


def _text_diff(before: str, after: str) -> str:
    rows = difflib.unified_diff(before.split("\n"), after.split("\n"), "before", "edited", lineterm="", n=2)
    return "\n".join(rows) if after else ""
