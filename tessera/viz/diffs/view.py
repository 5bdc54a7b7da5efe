"""The visual diff: two stages side by side or as one column, by what became of each operation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Final

from tessera.core.base.collector import collector_paused
from tessera.core.errors.catalog import BadExpectation
from tessera.core.progress import working
from tessera.core.stage_diff import ADDED, REMOVED
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.texts import without_host
from tessera.viz.base.view import Send, View
from tessera.viz.diffs.deltas import counts_of_lines, figures_of, instructions_of_operations, measured
from tessera.viz.diffs.model import DiffModel, Verdict
from tessera.viz.diffs.sides import Comparable, Subject, related, subject_of
from tessera.viz.stage_alignment.align import BY_IDENTITY, compare
from tessera.viz.stage_alignment.changes import SIGNS, Change, Comparison, DiffLine, Row

_BUDGET: Final = 150_000
"""Characters that a static diff carries at most beside the pair that is shown; they deflate to a fifth."""
_CHANGE: Final = 60
"""Characters of a change, about."""
_PLAIN_ROWS: Final = 120
_CONTEXT: Final = 2
_PRE: Final = "white-space:pre;overflow:auto;margin:4px 0;font-size:12px;line-height:1.4"
_COLOURS: Final[Mapping[str, str]] = {ADDED: "#1a7f37", REMOVED: "#b42318"}
_OTHER: Final = "#9a6700"
_OF_LEVEL: Final[Mapping[str, str]] = {"good": _COLOURS[ADDED], "doubtful": _OTHER, "bad": _COLOURS[REMOVED]}

SideKey = Callable[[int, int], str]
"""Names the text of a stage: by the side, and the number of the stage there."""


def diff(a: Comparable, b: Comparable, *, args: Sequence[object] = (), expect: object = None) -> "DiffView":
    """Compare two states of kernels, by operations: passes, targets, tuning points, or two kernels.

    Functions of operators are compared by the nodes of their graphs: two passes, graph and schedule, or two functions.

    a, b: a kernel (its last compilation), a compilation (`kernel.compile(..., target=...)`), either of them with a
        level and a pass, `(kernel, "tile", "cuda-select-mma")`; or a `Stage`.  Without a level it is the last Tile IR.
    args: arguments that kernels are compiled for, and on copies of which both are run, compared and timed, in turns;
        examples for functions of operators, which are not run
    expect: what both should compute from `args`: an array, of the only output, or several by name or in order; a
        function of the arguments, which returns them or writes to its copies; or NumPy code, `"y[:] = 2 * x"`

    Raises:
        NothingToShow: a side is nothing that has stages, or the sides are different levels.
        UnknownLevel: there is no such level or pass, or a kernel was not called and says too little by itself.
        NotAvailableYet: with `args`, one side runs on a GPU and the other does not.
        BadExpectation: `expect` fits no output, or there are no `args`.
    """
    before, after = subject_of(a, args), subject_of(b, args)
    model = _model(before, after)
    if args and before.graph is None and after.graph is None:
        figures, verdict = measured(before, after, args, expect)
        model = replace(model, figures=(*figures, *model.figures), verdict=verdict)
    elif expect is not None:
        raise BadExpectation("expect= needs kernels and the arguments to run them on", hint="give args=(x, y)")
    return DiffView(model, before, after)


@collector_paused()
def _model(before: Subject, after: Subject) -> DiffModel:
    if before.wanted == ("", "") and after.wanted != ("", ""):
        before = _at_level(before, after)
    elif after.wanted == ("", "") and before.wanted != ("", ""):
        after = _at_level(after, before)
    chosen = (before.chosen, after.chosen)
    comparisons = {chosen: _compared(before, after, chosen)}
    budget = _BUDGET
    pairs = _likely(before, after)
    with working(f"diff of {before.name} and {after.name}", len(pairs)) as task:
        for number, pair in enumerate(pairs):
            task.step(number, " ".join(before.choices[pair[0]]))
            if pair in comparisons or _longest(before, after, pair) > budget:
                continue
            one = _compared(before, after, pair)
            if _size(one) <= budget:
                comparisons[pair] = one
                budget -= _size(one)
    return DiffModel(
        before.side(chosen[0]), after.side(chosen[1]), before.choices, after.choices, chosen, comparisons,
        figures_of(before, after, comparisons[chosen]), group=before.group,
    )  # fmt: skip


def _at_level(side: Subject, other: Subject) -> Subject:
    """Return a side without a level at the level of the other."""
    return replace(side, wanted=(other.wanted[0], ""))


def _compared(before: Subject, after: Subject, pair: tuple[int, int]) -> Comparison:
    i, j = pair
    return compare(before.shown[i], after.shown[j], related(before, i, after, j))


def _likely(before: Subject, after: Subject) -> list[tuple[int, int]]:
    """Return the pairs of stages that are looked at next: what each pass did, or the same pass on both sides."""
    if before.shown == after.shown:
        levels = [level for level, _ in before.choices]
        steps = [(i, i + 1) for i in range(len(levels) - 1) if levels[i] == levels[i + 1]]
        tiles = [i for i, level in enumerate(levels) if level in BY_IDENTITY]
        return [*steps, *([(tiles[0], tiles[-1])] if tiles else [])]
    places = {choice: number for number, choice in enumerate(after.choices)}
    same = [(i, places[choice]) for i, choice in enumerate(before.choices) if choice in places]
    return sorted(same, key=lambda pair: before.choices[pair[0]][0] not in BY_IDENTITY)


def _longest(before: Subject, after: Subject, pair: tuple[int, int]) -> int:
    return sum(len(line.text) for side, i in zip((before, after), pair, strict=True) for line in side.shown[i].lines)


def _size(one: Comparison) -> int:
    changes = sum(_CHANGE + len(change.words) for change in one.changes)
    return changes + sum(len(line.text) for line in (*one.before, *one.after))


class DiffView(View[DiffModel]):
    """Two stages beside each other, with what became of each operation."""

    kind = "diff"

    def __init__(self, data: DiffModel, before: Subject, after: Subject) -> None:
        super().__init__(data)
        self._before, self._after = before, after
        self._counts: dict[int, Mapping[int, int]] = {}

    @property
    def title(self) -> str:
        """Both sides, as far as they differ."""
        return f"diff of {self.data.before.label} and {self.data.after.label}"

    def text(self) -> str:
        """Return one line: the sides and how many changes there are of each kind."""
        return without_host(f"{self.title}: {self.data.comparison.told}")

    def plain_html(self) -> str:
        """Return a unified diff, cut after some hundred rows."""
        one = self.data.comparison
        rows = _unified(one)
        shown = "\n".join(rows[:_PLAIN_ROWS])
        left = len(rows) - _PLAIN_ROWS
        more = f"<div>and {left:,} more rows</div>" if left > 0 else ""
        return (
            f"<div><b>- {escape(self.data.before.label)}</b></div><div><b>+ {escape(self.data.after.label)}</b></div>"
            f"{_plain_verdict(self.data.verdict)}<div>{escape(one.told)}</div>"
            f'<pre style="{_PRE}">{shown}</pre>{more}{_figures_table(self.data)}'
        )

    def payload(self) -> Json:
        """Return the comparisons, each text once."""
        data = self.data
        packed = self._packed()
        pairs = [packed.comparison(pair, one, self._side_key) for pair, one in data.comparisons.items()]
        return {
            "title": self.title,
            "text": self.text(),
            "group": data.group,
            "signs": dict(SIGNS),
            "sides": [_labelled(side) for side in (self._before, self._after)],
            "choices": [encode(data.before_choices), encode(data.after_choices)],
            "chosen": list(data.chosen),
            "pairs": pairs,
            "texts": packed.texts,
            "strings": packed.strings,
            "figures": encode(data.figures),
            "verdict": encode(data.verdict),
        }

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Compare two other stages: `{"type": "compare", "before": 3, "after": 7}`."""
        if message.get("type") != "compare":
            super().answer(message, send)
            return
        pair = (int(str(message["before"])), int(str(message["after"])))
        packed = self._packed()
        one = packed.comparison(pair, _compared(self._before, self._after, pair), self._side_key)
        send({"type": "compared", "pair": one, "texts": packed.texts, "strings": packed.strings})

    def _packed(self) -> "_Packed":
        sides = (self._before.compiled, self._after.compiled)
        levels = [level for level, _ in self.data.before_choices]
        return _Packed(levels, [{} if compiled is None else self._counted(compiled) for compiled in sides])

    def _counted(self, compiled: Compiled) -> Mapping[int, int]:
        """Return the instructions of each operation, counted once a compilation."""
        if id(compiled) not in self._counts:
            self._counts[id(compiled)] = instructions_of_operations(compiled)
        return self._counts[id(compiled)]

    def _side_key(self, side: int, number: int) -> str:
        """Name the text of a stage, one name for both sides where they are one compilation."""
        return f"{0 if self._before.shown == self._after.shown else side}.{number}"


def _labelled(side: Subject) -> Json:
    return {"stages": [encode(side.side(i).label) for i in range(len(side.shown))], "name": side.name}


class _Packed:
    """Comparisons for the page: every text once, runs of rows without changes as one entry."""

    def __init__(self, levels: Sequence[str], counts: Sequence[Mapping[int, int]]) -> None:
        self._levels, self._counts = levels, counts
        self.strings: list[str] = []
        self.texts: dict[str, Json] = {}
        self._numbers: dict[str, int] = {}

    def comparison(self, pair: tuple[int, int], one: Comparison, key: SideKey) -> dict[str, Json]:
        """Return a comparison as JSON."""
        keys = [key(side, number) for side, number in enumerate(pair)]
        for name, lines, counts in zip(keys, (one.before, one.after), self._counts, strict=True):
            if name not in self.texts:
                # Below Tile IR, instructions are the lines themselves.
                self.texts[name] = self._text(lines, counts if self._levels[pair[0]] in BY_IDENTITY else {})
        return {
            "at": list(pair),
            "texts": list(keys),
            "rows": _runs(one.rows),
            "changes": [self._change(change) for change in one.changes],
            "kept": one.kept,
            "told": one.told,
        }

    def _text(self, lines: Sequence[DiffLine], counts: Mapping[int, int]) -> Json:
        return {
            "counts": counts_of_lines(lines, counts),
            "text": [self._number(line.text) for line in lines],
            "lines": [list(line.lines) for line in lines],
            "ops": [list(line.ops) for line in lines],
        }

    def _change(self, change: Change) -> Json:
        return [
            change.kind, self._number(change.name), self._number(change.words), list(change.before),
            list(change.after), list(change.fields), change.moved, encode(change.marks_before),
            encode(change.marks_after),
        ]  # fmt: skip

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.strings))
        if number == len(self.strings):
            self.strings.append(text)
        return number


def _runs(rows: Sequence[Row]) -> list[Json]:
    """Return rows as [before, after, how many] where both go on without a change, else with their changes."""
    found: list[list[int]] = []
    for row in rows:
        plain = row.changed_before < 0 and row.changed_after < 0 and row.before >= 0 and row.after >= 0
        last = found[-1] if found else []
        goes_on = len(last) == 3 and (last[0] + last[2], last[1] + last[2]) == (row.before, row.after)
        if plain and goes_on:
            last[2] += 1
        elif plain:
            found.append([row.before, row.after, 1])
        else:
            found.append([row.before, row.after, row.changed_before, row.changed_after])
    return list(found)


def _plain_verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    details = "".join(f"<div>{escape(each)}</div>" for each in verdict.details)
    return f'<div style="color:{_OF_LEVEL[verdict.level]}"><b>results: {escape(verdict.text)}</b></div>{details}'


def _unified(one: Comparison) -> list[str]:
    """Return the rows of a unified diff as HTML, with some rows around each change."""
    near = [False] * len(one.rows)
    for number, row in enumerate(one.rows):
        if row.changed_before >= 0 or row.changed_after >= 0 or row.before < 0 or row.after < 0:
            for place in range(max(0, number - _CONTEXT), min(len(near), number + _CONTEXT + 1)):
                near[place] = True
    found: list[str] = []
    skipped = 0
    for number, row in enumerate(one.rows):
        if not near[number]:
            skipped += 1
            continue
        if skipped:
            found.append(f"  ... {skipped:,} unchanged")
            skipped = 0
        found += _plain_row(one, row)
    return [*found, f"  ... {skipped:,} unchanged"] if skipped else found


def _plain_row(one: Comparison, row: Row) -> list[str]:
    old = one.before[row.before].text if row.before >= 0 else None
    new = one.after[row.after].text if row.after >= 0 else None
    change = one.changes[row.changed_after] if row.changed_after >= 0 else None
    if old is not None and new is not None and (change is None or old.strip() == new.strip()):
        return [_coloured(SIGNS[change.kind] if change else " ", new, change.kind if change else "")]
    found: list[str] = []
    if old is not None:
        gone = one.changes[row.changed_before].kind if row.changed_before >= 0 else REMOVED
        found.append(_coloured(SIGNS[gone] if gone != REMOVED else "-", old, REMOVED))
    if new is not None:
        come = change.kind if change is not None else ADDED
        found.append(_coloured(SIGNS[come], new, ADDED))
    return found


def _coloured(sign: str, text: str, kind: str) -> str:
    line = f"{sign} {escape(text)}"
    return f'<span style="color:{_COLOURS.get(kind, _OTHER)}">{line}</span>' if kind else line


def _figures_table(data: DiffModel) -> str:
    cell = '<td style="padding:1px 12px 1px 0;border:none;text-align:{}">{}</td>'
    rows = [
        "".join(
            cell.format(align, escape(text))
            for align, text in (
                ("left", each.name), ("right", each.told_before), ("right", each.told_after), ("right", each.delta),
            )
        )
        for each in data.figures
    ]  # fmt: skip
    return f'<table style="margin:4px 0">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>' if rows else ""
