"""The advice view: what limits a launch, in words and numbers; live, each advice can be tried with a click."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.profiling.advice.explanation import explanation
from tessera.profiling.advice.model import Advice, Explanation, options_text
from tessera.profiling.results import Profile
from tessera.tuning.measured_variants import measured_variants
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.subjects import profiled
from tessera.viz.base.view import Send, View
from tessera.viz.profile.timeline import selection_group


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """One advice as it is drawn; `options` as text, each of which can be tried."""

    kind: str
    text: str
    evidence: tuple[str, ...]
    gain: float | None
    lines: tuple[int, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdviceModel:
    """Advice on a launch, ranked."""

    kernel: str
    title: str
    group: str
    verdict: str
    advice: tuple[AdviceRow, ...]
    notes: tuple[str, ...]


def explain(profile: Profile) -> "AdviceView":
    """Say what limits a launch, ranked by what mending it should gain, with the numbers it stands on and the lines.

    Where a search on disk measured what an advice proposes, its times decide.

    Raises NothingToShow for what is no profile.
    """
    profiled(profile, "explain")
    return AdviceView(profile)


class AdviceView(View[AdviceModel]):
    """Advice on a profile; `explanation` holds it as objects that can be tried: `view.advice[0].try_()`."""

    kind = "advice"

    def __init__(self, profile: Profile) -> None:
        self.explanation: Final[Explanation] = explanation(profile, measured_variants)
        self._worker: Final = ThreadPoolExecutor(1, "tessera-trial")  # one at a time: they would disturb each other
        rows = tuple(map(_row, self.explanation.advice))
        super().__init__(
            AdviceModel(
                profile.kernel,
                f"advice on {profile.kernel} on {profile.machine.name}",
                selection_group(profile),
                self.explanation.verdict,
                rows,
                self.explanation.notes,
            )
        )

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The advice, the largest estimated gain first."""
        return self.explanation.advice

    @property
    def title(self) -> str:
        """The kernel and the machine."""
        return self.data.title

    def text(self) -> str:
        """Return one line that is the same in every run and on every machine; `summary` says what was found."""
        return f"advice on {self.data.kernel}: .summary() says it in words"

    def summary(self) -> str:
        """Return the verdict and a line an advice."""
        lines = [self.data.verdict, *(f"{_gain(row)}  {row.kind}: {row.text}" for row in self.data.advice)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.data.notes)])

    def plain_html(self) -> str:
        """Return the verdict and a list."""
        rows = "".join(
            f"<li><b>{escape(row.kind)}</b> ({_gain(row)}{_where(row)}): {escape(row.text)}<br><small>"
            f"{escape('; '.join(row.evidence))}{_worth(row)}</small></li>"
            for row in self.data.advice
        )
        notes = "".join(f"<div>note: {escape(note)}</div>" for note in self.data.notes)
        return f"<div><b>{escape(self.title)}</b></div><div>{escape(self.data.verdict)}</div><ol>{rows}</ol>{notes}"

    def payload(self) -> Json:
        """Return the model."""
        found = encode(self.data)
        assert isinstance(found, Mapping)
        return {**found, "text": self.data.verdict}

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Try an option of an advice, in the background: progress, then the measured result."""
        if message.get("type") != "try":
            super().answer(message, send)
            return
        number, option = message.get("advice"), message.get("option")
        if not isinstance(number, int) or not isinstance(option, int) or not 0 <= number < len(self.advice):
            raise ValueError(f"there is no advice {number!r} with an option {option!r}")
        self._worker.submit(self._try, number, option, send)

    def _try(self, number: int, option: int, send: Send) -> None:
        place = {"advice": number, "option": option}

        def told(step: str) -> None:
            send({"type": "progress", "text": step, **place})

        try:
            result = self.advice[number].trial(option, told=told)
        except Exception as error:  # noqa: BLE001 - whatever went wrong is what the page says
            send({"type": "tried", "error": f"{type(error).__name__}: {error}", **place})
            return
        send({"type": "tried", "text": str(result), "ratio": result.ratio, "agrees": result.agrees, **place})


def _row(advice: Advice) -> AdviceRow:
    options = tuple(map(options_text, advice.options))
    return AdviceRow(advice.kind, advice.text, tuple(map(str, advice.evidence)), advice.gain, advice.lines, options)


def _gain(row: AdviceRow) -> str:
    return "gain not known" if row.gain is None else f"at most {row.gain:.0%}"


def _where(row: AdviceRow) -> str:
    return f", line {row.lines[0]}" if row.lines else ""


def _worth(row: AdviceRow) -> str:
    return f"; worth a try: {escape(' or '.join(row.options))}" if row.options else ""
