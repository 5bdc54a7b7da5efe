"""The outcome of a search for the fastest configuration, as a table with bars."""

from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.tuning import DUPLICATE, Trial, Tuning, show

ROWS: Final = 40
"""Configurations shown; the rest is counted."""
_BAR: Final = "display:inline-block;height:10px;background-color:#56b4e9"
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"
_WIDEST: Final = 240


@dataclass(frozen=True, slots=True)
class TuningRow:
    """One configuration: its times relative to the best one (0 where it has none), and what there is to say."""

    config: str
    ratio: float
    remark: str


@dataclass(frozen=True, slots=True)
class TuningView:
    """The configurations, fastest first; `left` of them are not among `rows`."""

    title: str
    rows: tuple[TuningRow, ...]
    left: int


def tuning_view(tuning: Tuning) -> TuningView:
    """Return what to draw of `tuning`."""
    trials = sorted(tuning.trials, key=lambda trial: (trial.median is None, trial.median or 0.0))
    best = next((trial.median for trial in trials if trial.median is not None), None)
    rows = tuple(_row(trial, best) for trial in trials[:ROWS])
    return TuningView(f"tuning of {tuning.kernel} on {tuning.device}", rows, max(0, len(trials) - ROWS))


def tuning_text(tuning: Tuning) -> str:
    """Return one line that is the same in every run."""
    count = len(tuning.trials)
    rest = "" if tuning.complete else ", not all tried"
    return f"tuning of {tuning.kernel}: {count} configuration{'' if count == 1 else 's'}{rest}"


def tuning_html(tuning: Tuning) -> str:
    """Return the table as HTML with inline styles."""
    view = tuning_view(tuning)
    rows = "".join(_html_row(row) for row in view.rows)
    left = f"<div>and {view.left} more</div>" if view.left else ""
    return f'<div><b>{escape(view.title)}</b></div><table style="margin:4px 0">{rows}</table>{left}'


def _row(trial: Trial, best: float | None) -> TuningRow:
    config = show(trial.config)
    if trial.status == DUPLICATE:
        return TuningRow(config, 0.0, f"same code as {show(trial.same_as or {})}")
    if trial.median is None or not best:
        return TuningRow(config, 0.0, " ".join(filter(None, (trial.status, trial.error))))
    ratio = trial.median / best
    runs = f"median of {len(trial.seconds)} runs"
    if trial.predicted is not None:
        runs += f", predicted {trial.predicted * 1e6:,.1f} µs"
    return TuningRow(config, ratio, f"{trial.median * 1e6:,.1f} µs, {ratio:.2f} times the best ({runs})")


def _html_row(row: TuningRow) -> str:
    # The longest bar is four times the best; what is slower still says so in words.
    width = round(_WIDEST / 4 * min(row.ratio, 4.0))
    bar = f'<span style="{_BAR};width:{width}px"></span>' if width else ""
    cells = (f"<code>{escape(row.config)}</code>", bar, escape(row.remark))
    inside = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="background-color:transparent">{inside}</tr>'
