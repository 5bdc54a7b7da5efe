"""Hold advice against what a search measured: what is slower is no advice, and what was fastest is one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tessera.profiling.advice.model import Advice, Evidence, Measured, Options, options_text

_NOISE: Final = 0.02
"""Times nearer than this are equal: a search takes them at several moments."""


def checked(advice: Sequence[Advice], measured: Measured) -> tuple[list[Advice], list[str]]:
    """Return the advice that a search does not contradict, with its times, and notes on what it does contradict.

    The fastest values of the search are an advice of their own, where they are not the profiled ones.
    """
    kept: list[Advice] = []
    notes: list[str] = []
    for each in advice:
        ratios = [(options, measured.ratio(options)) for options in each.options]
        slower = [(options, ratio) for options, ratio in ratios if ratio is not None and ratio >= 1.0 - _NOISE]
        if not slower:
            kept.append(each)
            continue
        told = "; ".join(f"{options_text(options)} {_in_words(ratio)}" for options, ratio in slower)
        hopeful = tuple(options for options, ratio in ratios if ratio is None or ratio < 1.0 - _NOISE)
        if hopeful:
            kept.append(replace(each, text=f"{each.text} A search measured {told}.", options=hopeful))
        else:
            notes.append(f"{each.kind} is no advice here: a search measured {told}")
    fastest = measured.fastest
    ratio = measured.ratio(fastest) if fastest else None
    if ratio is not None and ratio < 1.0 - _NOISE:
        kept.append(_tuned(fastest, ratio, kept))
    return kept, notes


def _tuned(fastest: Options, ratio: float, advice: Sequence[Advice]) -> Advice:
    text = f"The last search of this kernel measured {options_text(fastest)}: {ratio:.2f} of the time of these values."
    lines = next((each.lines for each in advice if each.lines), ())
    return Advice("other values", text, (Evidence("time", ratio, "%"),), 1.0 - ratio, lines, (fastest,))


def _in_words(ratio: float) -> str:
    return "does not compile" if math.isinf(ratio) else f"takes {ratio:.2f} times as long"
