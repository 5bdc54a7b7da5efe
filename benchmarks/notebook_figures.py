"""Figures of `notebook.py`: samples with a target, the table that is printed, and the JSON that is kept."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

_PACKAGES: Final = ("jupyterlab", "ipykernel", "ipywidgets", "anywidget", "playwright", "numpy", "llvmlite")


@dataclass(frozen=True)
class Figure:
    """A figure of the notebook side.

    samples: one a repetition, in `unit`; what is counted has one
    target: in `unit`, None for a part of a figure, or what the study gives no target for
    least: whether the target is a lower bound
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    target: float | None = None
    least: bool = False

    @property
    def median(self) -> float:
        """The median of the samples."""
        return statistics.median(self.samples)

    @property
    def ratio(self) -> float | None:
        """The median over the target; None where one is missing or nothing may be."""
        return self.median / self.target if self.target else None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target; None without one."""
        if self.target is None:
            return None
        return self.median >= self.target if self.least else self.median <= self.target

    @property
    def row(self) -> str:
        """The figure as a line of the table."""
        bound = "" if self.target is None else f"{'>=' if self.least else '<='} {self.target:g}"
        word = {None: "", True: "met", False: "NOT MET"}[self.met]
        spread = f"{min(self.samples):.4g} to {max(self.samples):.4g}" if len(self.samples) > 1 else ""
        return f"{self.name:<74}{self.median:>10.4g} {self.unit:<6}{spread:>20}  {bound:<9} {word}".rstrip()

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name, "unit": self.unit, "median": round(self.median, 4),
            "least": round(min(self.samples), 4), "most": round(max(self.samples), 4),
            "repetitions": len(self.samples), "target": self.target,
            "bound": None if self.target is None else "at least" if self.least else "at most",
            "ratio": None if self.ratio is None else round(self.ratio, 3), "met": self.met,
        }  # fmt: skip


def elapsed_ms(run: Callable[[], object]) -> float:
    """Return how long one call takes, in ms."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def processor() -> str:
    """Return what the system calls its processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def part_document(figures: Iterable[Figure], load: Sequence[float], browser: str) -> dict[str, Any]:
    """Return a part as plain data: when, where and with what it was measured, and its figures.

    load: the machine's load averages before the part began
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "load": [round(each, 2) for each in load]},
        "versions": {
            "python": platform.python_version(), "chromium": browser, **{name: version(name) for name in _PACKAGES},
        },
        "figures": [figure.document() for figure in figures],
    }  # fmt: skip


def keep(path: Path, parts: dict[str, dict[str, Any]]) -> None:
    """Write parts into the JSON file of all parts; those that were not measured now stay as they are."""
    known: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**known, **parts}, indent=1) + "\n", encoding="utf-8")
