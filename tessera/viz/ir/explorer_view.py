"""The IR explorer: every level of a compilation side by side, from the user's cell to machine code, linked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Final

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.compilation import Compilation
from tessera.core.errors.catalog import UnknownLevel
from tessera.kernels.kernel import Configured, Kernel
from tessera.profiling.line_shares import line_shares
from tessera.profiling.results import Profile
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.subjects import compiled, profiled
from tessera.viz.base.texts import without_host
from tessera.viz.base.view import Send, View
from tessera.viz.ir.details import Column, PaneDetails
from tessera.viz.ir.explorer_model import CAPTIONS, WITH_IDENTITIES, ExplorerModel, explorer_model
from tessera.viz.ir.measured_shares import instruction_column, measured_column, sampled_column
from tessera.viz.ir.panes import Pane, ViewLine
from tessera.viz.ir.text_structure import filter_text
from tessera.viz.operators.captured import Capturable, captured
from tessera.viz.operators.chosen_kernel import ChosenKernel

PLAIN_LINES: Final = 48
"""Lines of each level in the plain part; the whole text is in the data."""
_SIGNS: Final = {"": " ", "new": "+", "changed": "~", "moved": ">"}
_BOX: Final = "white-space:pre;overflow:auto;max-height:24em;margin:4px 0 4px 16px;font-size:12px;line-height:1.4"


def explore(
    x: Kernel | Configured | Compiled | Compilation | Capturable,
    *arguments: object,
    levels: str | Sequence[str] = (),
    only: bool = False,
    profile: Profile | None = None,
    llvm_passes: bool = False,
    kernel: int | None = None,
    target: str = "",
) -> "Explorer":
    """Show every level of a kernel's last compilation, or of one compilation, linked line by line.

    Of a function of operators: its graph after each pass, its schedule, and the levels of one of its kernels.

    arguments: of a function of operators, examples; without any, its last call is shown
    levels: shown first; more than one: side by side
    only: leave the other levels out, which makes the page of a large kernel smaller
    profile: of a launch of it: the measured share of time stands beside each line of the source.  On the CPU that is of
             sampled instructions, for which the kernel is launched again for half a second (Linux on x86-64), and
             stands beside the assembly, too; on GPUs it is of the phases of pipelined kernels
    llvm_passes: show LLVM IR after each of LLVM's own passes that changes it, too; compiles once more
    kernel: of a function of operators, the number of the kernel to show; None: the one that computes most
    target: of a function of operators, what its kernels are compiled for; "": where its call runs

    Raises:
        NothingToShow: `x` or `profile` is something else, or there is no such kernel.
        UnknownLevel: there is no such level, or a kernel was not called and says too little by itself.
    """
    measured_by = profiled(profile, "explore") if profile is not None else None
    levels = (levels,) if isinstance(levels, str) else tuple(levels)
    if not isinstance(x, Kernel | Configured | Compiled | Compilation):
        chosen = ChosenKernel(captured(x, arguments, "explore"), kernel, target)
        return Explorer(operators_model(chosen, levels, only=only), levels, chosen)
    model = model_of(x, llvm_passes=llvm_passes, levels=levels, only=only)
    return Explorer(model if measured_by is None else _measured(model, measured_by), levels)


def operators_model(chosen: ChosenKernel, levels: Sequence[str] = (), *, only: bool = False) -> ExplorerModel:
    """Return the view model of a function of operators and one of its kernels.  Raises UnknownLevel."""
    listings, compiled_kernel = chosen.listings, chosen.compiled
    known = dict.fromkeys(["source", *(listing.level for listing in listings)])
    for level in levels:
        if level not in known:
            raise UnknownLevel(
                f"{level!r} is no level of {chosen.graph.name}", hint=f"choose one of {', '.join(known)}"
            )
    kept = [listing for listing in listings if not only or listing.level in levels]
    model = explorer_model(compiled_kernel.artifact, kept, compiled_kernel.passes, chosen.function)
    kernels = tuple(f"kernel {group.ident} {group.name}" for group in chosen.graph.plan.groups)
    first = chosen.first
    stories = {
        op: replace(story, mates=tuple(mate for mate in story.mates if (mate < first) == (op < first)))
        for op, story in model.stories.items()
    }
    return replace(model, stories=stories, kernels=kernels, kernel=chosen.group.ident, links=chosen.links)


def _measured(model: ExplorerModel, profile: Profile) -> ExplorerModel:
    """Return the model with columns of the share of time, beside the source and, where it was sampled, the assembly."""
    tile, lines = model.stages("tile"), len(model.source)
    shares = line_shares(profile)
    if shares is None:
        column = measured_column(tile[-1], model.first_line, lines, profile.phase_share) if tile else None
        return replace(model, measured=column)
    details = list(model.details)
    for number, pane in enumerate(model.panes):
        column = instruction_column(pane, shares) if pane.level == "asm" else None
        if column is not None:
            details[number] = replace(details[number], columns=(column, *details[number].columns))
    return replace(model, measured=sampled_column(model.first_line, lines, shares), details=tuple(details))


def model_of(
    x: Kernel | Configured | Compiled | Compilation,
    *,
    llvm_passes: bool = False,
    levels: Sequence[str] = (),
    only: bool = False,
) -> ExplorerModel:
    """Return the view model of what `explore` takes.  Raises UnknownLevel for levels that it does not have."""
    shown = x if isinstance(x, Compilation) else compiled(x, "explore")
    if llvm_passes and isinstance(shown, Compiled):
        shown = shown.with_llvm_passes()
    listings = shown.listings
    known = dict.fromkeys(["source", *(listing.level for listing in listings)])
    for level in levels:
        if level not in known:
            raise UnknownLevel(
                f"{level!r} is no level of {shown.artifact.name}", hint=f"choose one of {', '.join(known)}"
            )
    kept = [listing for listing in listings if not only or listing.level in levels]
    return explorer_model(shown.artifact, kept, shown.passes)


class Explorer(View[ExplorerModel]):
    """All levels of one compilation.

    levels: the ones shown first; chosen: the kernel, where it is one of a function of operators
    """

    kind = "explorer"

    def __init__(
        self, data: ExplorerModel, levels: tuple[str, ...] = (), chosen: ChosenKernel | None = None
    ) -> None:  # fmt: skip
        super().__init__(data)
        self.levels: Final = levels
        self.chosen: Final = chosen

    @property
    def title(self) -> str:
        """The kernel and its target."""
        view = self.data
        which = f", {view.kernels[view.kernel]} of {len(view.kernels)}" if len(view.kernels) > 1 else ""
        return f"{view.name}{which} for {view.target}"

    def text(self) -> str:
        """Return one line: the kernel, its target, its levels, Tile IR with its number of passes and lines."""
        parts: list[str] = []
        for level in self.data.levels:
            stages = self.data.stages(level)
            lines = len(stages[-1].lines)
            passes = f" after {len(stages)} passes" if len(stages) > 1 else ""
            # Below Tile IR, how many lines there are depends on the processor.
            parts.append(f"{level}{passes} {counted(lines, 'line')}" if level == "tile" else level)
        return without_host(f"{self.title}: {', '.join(parts) or 'no level was looked at'}")

    def plain_html(self) -> str:
        """Return the source, and each level folded, long ones cut."""
        view = self.data
        source = "\n".join(f"{view.first_line + i:>4}  {line}" for i, line in enumerate(view.source))
        parts = [
            f'<div style="margin:4px 0"><b>{escape(view.name)}</b> for {escape(view.target)}</div>',
            f'<pre style="{_BOX}"><code>{escape(source)}</code></pre>',
        ]
        for level in view.levels:
            pane = view.stages(level)[-1]
            shown = " open" if level in self.levels else ""
            parts.append(
                f"<details{shown}><summary>{escape(CAPTIONS.get(level, level))} ({counted(len(pane.lines), 'line')})"
                f'</summary><pre style="{_BOX}"><code>{escape(_excerpt(pane))}</code></pre></details>'
            )
        return "".join(parts)

    def payload(self) -> Json:
        """Return what the renderer reads.  A line's links are an index into `keys`: many lines share one."""
        view = self.data
        keys: dict[tuple[object, ...], int] = {}
        records = {record: number for number, record in enumerate(view.lives)}
        panes: list[Json] = []
        for number, (pane, details) in enumerate(zip(view.panes, view.details, strict=True)):
            panes.append({**self._head(pane), **self._body(number, details, keys, records)})
        return {
            "title": self.title, "group": view.group, "name": view.name, "target": view.target, "label": view.label,
            "first": view.first_line, "source": encode(view.source),
            "captions": {level: CAPTIONS.get(level, level) for level in view.levels},
            "open": [level for level in self.levels if level in view.levels],
            "panes": panes,
            "keys": encode(list(keys)),
            "ops": {str(op): self._story(op) for op in view.stories},
            "records": [[record, life.born, life.last] for record, life in view.lives.items()],
            "docs": encode(view.docs),
            "remarks": encode(view.remarks),
            "measured": _column(view.measured) if view.measured is not None else None,
            "kernels": list(view.kernels), "kernel": view.kernel, "links": encode(view.links),
        }  # fmt: skip

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Show another kernel of the function: `{"type": "kernel", "kernel": 1}`."""
        if message.get("type") != "kernel" or self.chosen is None:
            super().answer(message, send)
            return
        chosen = replace(self.chosen, number=int(str(message["kernel"])))
        model = operators_model(chosen)
        send({"type": "kernel", "data": Explorer(model, self.levels, chosen).payload()})

    def _story(self, op: int) -> Json:
        story = self.data.stories[op]
        place = (story.place.line, story.place.column) if story.place is not None else None
        return {"place": place, "born": story.born, "last": story.last, "mates": story.mates}

    def _head(self, pane: Pane) -> dict[str, Json]:
        counts, ran = pane.counts, pane.ran
        return {
            "level": pane.level,
            "stage": pane.stage or "final",
            "ran": encode(ran) if ran is not None else None,
            "signs": "".join(_SIGNS[line.change] for line in pane.lines).rstrip(),
            "ghosts": [(ghost.before, ghost.text) for ghost in pane.ghosts],
            "counts": {"fresh": counts.new, "changed": counts.changed, "gone": counts.gone, "told": counts.told},
        }

    def _body(
        self, number: int, details: PaneDetails, keys: dict[tuple[object, ...], int], records: dict[str, int]
    ) -> dict[str, Json]:
        """Return the text of a pane and what belongs to it, or the number of the pane before that has the same."""
        panes = self.data.panes
        pane = panes[number]
        if number and panes[number - 1].level == pane.level and _same(panes[number - 1], pane):
            return {"same": number - 1}
        return {
            "text": pane.text,
            "keys": _indices([keys.setdefault(self._links(line), len(keys)) for line in pane.lines]),
            "records": _indices(
                [records.get(line.record, -1) for line in pane.lines] if pane.level in WITH_IDENTITIES else []
            ),
            "quiet": _indices(details.quiet),
            "filter": filter_text(pane.level, len(details.quiet)),
            "folds": [(fold.head, fold.last) for fold in details.folds],
            "branches": [(each.target, each.lane, *each.sources) for each in details.branches],
            "columns": [_column(column) for column in details.columns],
            "docs": _indices(details.docs),
        }  # fmt: skip

    def _links(self, line: ViewLine) -> tuple[object, ...]:
        """Return source lines, operations, and places (line, first column, column past the end) cut at line ends."""
        view = self.data
        places: list[tuple[int, int, int]] = []
        for span in line.spans:
            index = span.line - view.first_line
            width = len(view.source[index]) if 0 <= index < len(view.source) else 0
            stop = span.end_column if span.end_line == span.line else width + 1
            places.append((span.line, span.column, max(stop, span.column + 1)))
        return line.sources, line.ops, tuple(places)


def _column(column: Column) -> Json:
    return {
        "name": column.name, "title": column.title, "width": column.width, "cells": _indices(column.cells),
        "kinds": [(kind.text, kind.told, kind.bar) for kind in column.kinds],
    }  # fmt: skip


def _same(before: Pane, pane: Pane) -> bool:
    links = [(line.text, line.spans, line.ops, line.record) for line in before.lines]
    return links == [(line.text, line.spans, line.ops, line.record) for line in pane.lines]


def _indices(numbers: Sequence[int]) -> Json:
    """Return short lists as JSON numbers, long ones as bytes."""
    return list(numbers) if len(numbers) < 64 else encode(np.array(numbers, np.int32))


def _excerpt(pane: Pane) -> str:
    """Return the level's text with the source line before each, and a note where it is cut."""
    rows = [f"{f'L{line.sources[0]}' if line.sources else '':>5}  {line.text}" for line in pane.lines[:PLAIN_LINES]]
    left = len(pane.lines) - PLAIN_LINES
    if left > 0:
        rows.append(f"       ... {left} more lines (run the cell, or trust the notebook, to see them all)")
    return "\n".join(rows)
