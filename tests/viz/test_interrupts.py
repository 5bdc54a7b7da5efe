"""Ctrl-C while a view is made: nothing is half made, arguments are as they were, and the next call works."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessera
from support.interrupts import ctrl_c_inside, interrupted
from support.view_cases import CASES, host
from tessera import viz
from tessera.core.progress import NOTEBOOK, State
from tessera.kernels.kernel import Kernel
from tessera.runtime.interpret.machine import Machine
from tessera.viz.base.view import View
from tessera.viz.tile_debugger.recording import Limits
from tessera.viz.workbenches import view as workbench_view

Make = Callable[[Kernel, tuple[object, ...]], View[Any]]
MAKES: dict[str, Make] = {
    "explore": lambda kernel, values: viz.explore(kernel.compile(*values)),
    "film": lambda kernel, values: viz.film(kernel.compile(*values)),
    "diff": lambda kernel, values: viz.diff(kernel.compile(*values), kernel.compile(*values)),
    "dataflow": lambda kernel, values: viz.dataflow(kernel.compile(*values)),
    "tiles": lambda kernel, values: viz.tiles(kernel, *values),
    "schedule": lambda kernel, values: viz.schedule(kernel, *values),
    "edit": lambda kernel, values: viz.edit(kernel, *values),
    "workbench": lambda kernel, values: viz.workbench(kernel, *values),
}
PLACES = (0, 40, 400, 3000)
"""Lines of the views' code before which Ctrl-C comes."""


@pytest.mark.parametrize("name", MAKES)
def test_the_next_view_is_whole(name: str):
    case = CASES["phases"]
    kernel, values = case.kernel(), case.made()
    before = [host(value).copy() for value in values]
    whole = MAKES[name](kernel, values)
    reached = [interrupted(lambda: MAKES[name](kernel, values), line, "tessera/viz/") for line in PLACES]
    assert reached[0]
    again = MAKES[name](kernel, values)
    assert again.text() == whole.text()
    for value, then in zip(values, before, strict=True):
        assert np.array_equal(host(value), then)


def test_a_recording_ends_at_once_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch):
    kernel = CASES["rows"].kernel()
    values = (np.ones((8000, 5), np.float32), np.zeros((8000, 5), np.float32), 2.0)
    many = Limits(tiles=2000, steps=100_000, work=10**9)
    said: list[str] = []

    class Kept:
        def show(self, status: State) -> None:
            said.append(status.line)

        def close(self, status: State) -> None:
            said.append(status.last_line)

    monkeypatch.setattr("tessera.core.progress._LONG", 0.0)
    monkeypatch.setattr(NOTEBOOK, "opener", Kept)
    with ctrl_c_inside(Machine.run):
        viz.tiles(kernel, *values, limits=many)
    assert said[-1].startswith("recording rows interrupted after ")
    assert said[-1].endswith(" of 2,000")
    assert not values[1].any()
    assert viz.tiles(kernel, *values).data.total == 2000


def test_a_workbench_ends_where_it_profiles():
    case = CASES["rows"]
    kernel, values = case.kernel(), case.made()
    kernel(*values)
    with ctrl_c_inside(workbench_view._profile):  # pyright: ignore[reportPrivateUsage]
        while True:
            viz.workbench(kernel, *values)
    assert "profile" in viz.workbench(kernel, *values).views
    kernel(*values)
    assert np.array_equal(host(values[1]), host(values[0]) * 2)


def test_a_sanitized_launch_shows_its_groups(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []

    class Kept:
        def show(self, status: State) -> None:
            lines.append(status.line)

        def close(self, _: State) -> None:
            """Nothing stays."""

    monkeypatch.setattr("tessera.core.progress._LONG", 0.0)
    monkeypatch.setattr("tessera.core.progress.PAUSE", 0.0)
    monkeypatch.setattr(NOTEBOOK, "opener", Kept)
    text = CASES["shared memory"].text.replace("@kernel tile[(64,)]", "@kernel(tile=(64,), sanitize=True)")
    kernel = tessera.compile_source(text).mirror
    kernel(*CASES["shared memory"].made())
    assert lines == [f"checking mirror: {group} of 3" for group in range(3)]
