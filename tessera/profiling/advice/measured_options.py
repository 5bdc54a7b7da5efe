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

    The fastest values of the search are an advice of their own, where they are not the profiled ones: the first, as
    they were measured.
    """
    kept: list[Advice] = []
    notes: list[str] = []
    for each in advice:
        refuted = {number: told for number, options in enumerate(each.options) if (told := _refuted(options, measured))}
        hopeful = tuple(options for number, options in enumerate(each.options) if number not in refuted)
        told = "; ".join(refuted.values())
        if not refuted:
            kept.append(each)
        elif hopeful:
            kept.append(replace(each, text=f"{each.text} A search measured {told}.", options=hopeful))
        else:
            notes.append(f"{each.kind} is no advice here: a search measured {told}")
    fastest = measured.fastest
    ratio = measured.ratio(fastest) if fastest else None
    if ratio is not None and ratio < 1.0 - _NOISE:
        kept.insert(0, _tuned(fastest, ratio, kept))
    return kept, notes


def _refuted(options: Options, measured: Measured) -> str:
    """Return why a search refutes options: their time, or a fastest value on the other side of the profiled one."""
    ratio = measured.ratio(options)
    if ratio is not None:
        return "" if ratio < 1.0 - _NOISE else f"{options_text(options)} {_in_words(ratio)}"
    fastest = measured.fastest
    against = {name: fastest[name] for name in options if name in fastest and _opposite(name, options, measured)}
    return f"{options_text(against)} as the fastest" if against else ""


def _opposite(name: str, options: Options, measured: Measured) -> bool:
    proposed, own, fastest = options[name], measured.own.get(name), measured.fastest[name]
    if not (isinstance(proposed, int) and isinstance(own, int) and isinstance(fastest, int)):
        return False
    return (proposed - own) * (fastest - own) < 0


def _tuned(fastest: Options, ratio: float, advice: Sequence[Advice]) -> Advice:
    text = f"The last search of this kernel measured {options_text(fastest)}: {ratio:.2f} of the time of these values."
    lines = next((each.lines for each in advice if each.lines), ())
    return Advice("other values", text, (Evidence("time", ratio, "%"),), 1.0 - ratio, lines, (fastest,))


def _in_words(ratio: float) -> str:
    return "does not compile" if math.isinf(ratio) else f"takes {ratio:.2f} times as long"
