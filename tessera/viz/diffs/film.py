"""The film of a compilation: every pass of Tile IR as one step, in which what moves is seen moving."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.core.base.plurals import counted
from tessera.core.progress import working
from tessera.kernels.kernel import Configured, Kernel
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.texts import without_host
from tessera.viz.base.view import View
from tessera.viz.diffs.model import Side
from tessera.viz.diffs.sides import related, subject_of
from tessera.viz.operators.captured import Capturable
from tessera.viz.stage_alignment.align import BY_IDENTITY, Related, compare
from tessera.viz.stage_alignment.changes import SIGNS, Comparison, DiffLine, Marks

_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"


@dataclass(frozen=True, slots=True)
class FilmLine:
    """A line of one step.

    before: the number of the line in the step before that it was; -1: it is new
    made_of: lines of the step before that it was made of, where it is new
    kind: what the pass did to its operation, a key of `SIGNS`; "": nothing
    """

    line: DiffLine
    before: int = -1
    made_of: tuple[int, ...] = ()
    kind: str = ""
    marks: Marks = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One step: what a pass left, and what it did.

    seconds: None where it is not known; told: its changes, in words
    """

    stage: str
    options: str
    seconds: float | None
    told: str
    lines: tuple[FilmLine, ...]


@dataclass(frozen=True, slots=True)
class FilmModel:
    """All steps of a compilation."""

    side: Side
    frames: tuple[Frame, ...]
    group: str


def film(x: Kernel | Configured | Compiled | Capturable, *arguments: object) -> "FilmView":
    """Show a compilation pass by pass: of a kernel its last one, or what `kernel.compile(...)` returned.

    Of a function of operators: the passes on its graph, for arguments like these, and its division into kernels.

    Raises:
        NothingToShow: it is neither.
        UnknownLevel: the kernel was not called, and its annotations alone do not say enough.
    """
    subject = subject_of(x, arguments, view="film")
    places = [i for i, (level, name) in enumerate(subject.choices) if level in BY_IDENTITY and name]
    places = places or [i for i, (level, _) in enumerate(subject.choices) if level in BY_IDENTITY]
    frames: list[Frame] = []
    with working(f"film of {subject.name}", len(places)) as task:
        for number, place in enumerate(places):
            task.step(number, subject.choices[place][1])
            stage = subject.shown[place]
            same = Related.COMPILATION
            last = places[number - 1] if number else place
            if number:
                same = related(subject, last, subject, place)
            one = compare(subject.shown[last], stage, same)
            ran = stage.ran
            options = (
                ", ".join(f"{key}={value}" for key, value in sorted(ran.options.items())) if ran is not None else ""
            )
            frames.append(
                Frame(
                    subject.choices[place][1], options, ran.seconds if ran is not None else None,
                    one.told if number else "the first stage", _lines(one) if number else _first(one),
                )
            )  # fmt: skip
    return FilmView(FilmModel(subject.side(subject.chosen), tuple(frames), subject.group))


def _first(one: Comparison) -> tuple[FilmLine, ...]:
    return tuple(FilmLine(line) for line in one.after)


def _lines(one: Comparison) -> tuple[FilmLine, ...]:
    """Return the lines of a step, each with the line that it was: also where that stood elsewhere."""
    was = {row.after: row.before for row in one.rows if row.after >= 0 and row.before >= 0}
    made: dict[int, tuple[int, ...]] = {}
    kinds: dict[int, tuple[str, Marks]] = {}
    for change in one.changes:
        for number, place in enumerate(change.after):
            kinds[place] = (change.kind, change.marks_after if not number else ())
        if change.kind in ("changed", "moved"):
            was.update(zip(change.after, change.before, strict=False))
        else:
            made.update(dict.fromkeys(change.after, change.before))
    found: list[FilmLine] = []
    for place, line in enumerate(one.after):
        kind, marks = kinds.get(place, ("", ()))
        known = -1 if place in made else was.get(place, -1)
        found.append(FilmLine(line, known, made.get(place, ()), kind, marks))
    return tuple(found)


class FilmView(View[FilmModel]):
    """The passes of a compilation as a film."""

    kind = "film"

    @property
    def title(self) -> str:
        """The kernel and its target."""
        target = f" for {self.data.side.target}" if self.data.side.target else ""
        return f"film of {self.data.side.kernel}{target}"

    def text(self) -> str:
        """Return one line: how many passes there are, and how many changed something."""
        frames = self.data.frames
        did = sum(frame.told != "no changes" for frame in frames[1:])
        passes = counted(len(frames), "pass") if len(frames) == 1 else f"{len(frames)} passes"
        return without_host(f"{self.title}: {passes}, {did} of them changed something")

    def plain_html(self) -> str:
        """Return a table of the passes, and the last step's text."""
        rows = "".join(
            _row("td", (frame.stage, frame.options, _milliseconds(frame.seconds), frame.told))
            for frame in self.data.frames
        )
        last = "\n".join(escape(line.line.text) for line in self.data.frames[-1].lines) if self.data.frames else ""
        head = _row("th", ("pass", "options", "time", "what it did"))
        return (
            f"<div><b>{escape(self.title)}</b></div><table>{head}{rows}</table>"
            f'<details><summary>at the end</summary><pre style="white-space:pre;overflow:auto">{last}</pre></details>'
        )

    def payload(self) -> Json:
        """Return the steps: of each line what differs from the step before."""
        texts: dict[str, int] = {}
        places: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        frames: list[Json] = []
        before: Sequence[FilmLine] = ()
        for frame in self.data.frames:
            lines: list[Json] = []
            for line in frame.lines:
                text = texts.setdefault(line.line.text, len(texts))
                place = places.setdefault((line.line.lines, line.line.ops), len(places))
                same = line.before >= 0 and before[line.before].line.text == line.line.text
                if same and not line.kind:
                    lines.append(line.before)
                else:
                    lines.append([
                        line.before, text, place, line.kind, list(line.made_of), encode(line.marks),
                    ])  # fmt: skip
            frames.append({
                "stage": frame.stage, "options": frame.options, "time": _milliseconds(frame.seconds),
                "told": frame.told, "lines": lines,
            })  # fmt: skip
            before = frame.lines
        return {
            "title": self.title,
            "text": self.text(),
            "group": self.data.group,
            "signs": dict(SIGNS),
            "texts": list(texts),
            "places": [[list(lines), list(ops)] for lines, ops in places],
            "frames": frames,
        }


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.2f} ms"


def _row(tag: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag} style={_CELL!r}>{escape(text)}</{tag}>' for text in texts)}</tr>"
