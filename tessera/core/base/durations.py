"""Durations in words."""

from typing import Final

_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def duration_text(seconds: float) -> str:
    """Return seconds with three digits and the unit that suits them: "2.02 ms", "366 µs", "12.5 ns"."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
