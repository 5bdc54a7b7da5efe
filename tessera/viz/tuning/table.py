"""A search as a table without scripts: a column for each parameter, times with heat, rates, predictions, remarks."""

from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.tuning.results import DUPLICATE, Trial, Tuning, show

ROWS: Final = 40
"""Configurations shown; the rest is counted."""
_BAR: Final = "display:inline-block;height:10px;background-color:#56b4e9"
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"
_NUMBER: Final = "padding:1px 12px 1px 0;border:none;text-align:right"
_WIDEST: Final = 240


@dataclass(frozen=True, slots=True)
class TuningRow:
    """One configuration.

    values: those of the parameters, "" where it has none; ratio: its time over the best one's, 0 where it has no time
    time, rate, predicted: in words; remark: what else there is to say
    """

    values: tuple[str, ...]
    ratio: float
    time: str
    rate: str
    predicted: str
    remark: str


@dataclass(frozen=True, slots=True)
class TuningTable:
    """The configurations, the best first; `left` of them are not among `rows`.

    parameters: their names, in the order of each row's values; notes: what to say below the table
    """

    title: str
    parameters: tuple[str, ...]
    rows: tuple[TuningRow, ...]
    left: int
    notes: tuple[str, ...]


def tuning_table(tuning: Tuning, most: int = ROWS) -> TuningTable:
    """Return what to draw of `tuning`, at most so many configurations."""
    trials = tuning.sorted_trials()
    best = trials[0].median if trials else None
    names = tuple(dict.fromkeys(name for trial in tuning.trials for name in trial.config))
    rows = tuple(_row(tuning, trial, best, names) for trial in trials[:most])
    notes = (*filter(None, [tuning.calibration.told]), *tuning.notes)
    title = f"tuning of {tuning.kernel} on {tuning.device}"
    return TuningTable(title, names, rows, max(0, len(trials) - most), notes)


def tuning_text(tuning: Tuning) -> str:
    """Return one line that is the same in every run."""
    count = len(tuning.trials)
    rest = "" if tuning.complete else ", not all tried"
    return f"tuning of {tuning.kernel}: {count} configuration{'' if count == 1 else 's'}{rest}"


def tuning_html(tuning: Tuning, most: int = ROWS) -> str:
    """Return the table as HTML with inline styles."""
    view = tuning_table(tuning, most)
    heads = [*view.parameters, "", "time", "rate", "predicted", ""]
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in heads)
    rows = "".join(_html_row(row) for row in view.rows)
    left = f"<div>and {view.left} more</div>" if view.left else ""
    notes = "".join(f"<div>{escape(note)}</div>" for note in view.notes)
    table = f'<table style="margin:4px 0"><tr style="background-color:transparent">{head}</tr>{rows}</table>'
    return f"<div><b>{escape(view.title)}</b></div>{table}{left}{notes}"


def _row(tuning: Tuning, trial: Trial, best: float | None, names: tuple[str, ...]) -> TuningRow:
    values = tuple(str(trial.config.get(name, "")) for name in names)
    mark = ["default"] if tuning.is_default(trial) else []
    if trial.status == DUPLICATE:
        return TuningRow(values, 0.0, "", "", "", ", ".join([f"same code as {show(trial.same_as or {})}", *mark]))
    if trial.median is None or not best:
        return TuningRow(values, 0.0, "", "", "", ", ".join([f"{trial.status} {trial.error}".rstrip(), *mark]))
    ratio = trial.median / best
    if trial.disturbed:
        mark.append(f"{trial.disturbed} of {len(trial.seconds)} launches disturbed by other work")
    decided = not trial.compared and any(other.compared for other in tuning.trials)
    moment = ", timed at another moment" if decided else ""
    said = [*mark, f"{ratio:.2f} times the best{moment}"] if ratio != 1.0 else [*mark, "the best"]
    expected = ""
    if trial.predicted is not None:
        seconds = tuning.calibration.corrected(trial.predicted)
        expected = f"{seconds * 1e6:,.1f} µs ({seconds / trial.median - 1:+.0%})"
    return TuningRow(values, ratio, f"{trial.median * 1e6:,.1f} µs", tuning.rate(trial), expected, ", ".join(said))


def _html_row(row: TuningRow) -> str:
    # The longest bar is four times the best; what is slower still says so in words.
    width = round(_WIDEST / 4 * min(row.ratio, 4.0))
    bar = f'<span style="{_BAR};width:{width}px"></span>' if width else ""
    values = "".join(f'<td style="{_NUMBER}"><code>{escape(value)}</code></td>' for value in row.values)
    numbers = "".join(f'<td style="{_NUMBER}">{escape(text)}</td>' for text in (row.time, row.rate, row.predicted))
    remark = f'<td style="{_CELL}">{escape(row.remark)}</td>'
    inside = f'{values}<td style="{_CELL}">{bar}</td>{numbers}{remark}'
    return f'<tr style="background-color:transparent">{inside}</tr>'
