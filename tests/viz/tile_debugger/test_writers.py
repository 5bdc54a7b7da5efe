"""Who writes an element, against the trace of everything, and against where a wrong one is planted."""

import numpy as np
import pytest

from support import stepped_kernels as kernels
from support.operator_graphs import QKV, attention
from tessera.api.source_module import compile_source
from tessera.core.errors.catalog import BadExpectation
from tessera.profiling.wrong_elements import WrongElements
from tessera.viz.tile_debugger.recorder import RecordingFull
from tessera.viz.tile_debugger.recording import Launch, Limits, record
from tessera.viz.tile_debugger.trace import Focus
from tessera.viz.tile_debugger.view import tiles
from tessera.viz.tile_debugger.writers import Writer, find_writer, trace_of_first_wrong

TEXT = """
@kernel
def late(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=4):
        y[t : t + 4] = x[t : t + 4]
        if t == 8:
            y[t : t + 2] = 7.0

@kernel
def gap(u: f32[m, n], v: mut f32[m, n], w: mut f32[m]):
    for i in tile.range(m, step=4):
        v[i + 1 : i + 5, :] = u[i : i + 4, :]
        w[i : i + 4] = tile.sum(u[i : i + 4, :], axis=1)
"""
MODULE = compile_source(TEXT)


def matmul(m: int = 70, n: int = 30, k: int = 4) -> Launch:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return Launch.of(kernels.matmul, (a, b, np.zeros((m, n), np.float32)), {}, None)


def test_tiles_write_what_the_trace_of_everything_says():
    launch = matmul()
    trace = record(launch)
    array = trace.arrays[2].name
    for element in range(0, 70 * 30, 211):
        step, _, lane = trace.users(array, element)[-1]
        written = trace.steps[step]
        wanted = Writer(trace.tiles[written.tile].number, written.line, lane)
        assert find_writer(launch, array, element, Limits()) == wanted


def test_lanes_of_a_grid():
    x = np.zeros(1000, np.float32)
    launch = Launch.of(kernels.saxpy, (x, x.copy(), 1.0), {}, None)
    found = find_writer(launch, "y", 300, Limits())
    assert found is not None
    assert (found.tile, found.lane) == (2, 300)


def test_the_last_write_counts():
    x = np.arange(16, dtype=np.float32)
    launch = Launch.of(MODULE.late, (x, np.zeros_like(x)), {}, None)
    assert find_writer(launch, "y", 9, Limits()) == Writer(2, 7, None)
    assert find_writer(launch, "y", 10, Limits()) == Writer(2, 5, None)


def test_what_nothing_writes():
    u = np.ones((8, 3), np.float32)
    launch = Launch.of(MODULE.gap, (u, np.zeros_like(u), np.zeros(8, np.float32)), {}, None)
    assert find_writer(launch, "v", 2, Limits()) is None
    assert find_writer(launch, "v", 3, Limits()) is not None


def test_a_large_launch_is_not_searched():
    launch = matmul()
    with pytest.raises(RecordingFull):
        find_writer(launch, record(launch).arrays[2].name, 0, Limits(work=10))
    wrong = WrongElements(record(launch).arrays[2].name, 1, 2100, (69, 29), 0.0, 1.0)
    _, focus, words = trace_of_first_wrong(launch, wrong, Limits(work=10))
    assert focus.step is None
    assert words.endswith("; who writes it is not searched for in so large a launch")


def test_a_tile_far_from_the_first_ones_is_recorded():
    launch = matmul()
    array = record(launch).arrays[2].name
    wrong = WrongElements(array, 1, 2100, (20, 17), 0.0, 1.0)
    trace, focus, words = trace_of_first_wrong(launch, wrong, Limits(tiles=4))
    assert [tile.name for tile in trace.tiles] == ["m=16, n=16"]
    assert focus.element == 20 * 30 + 17
    assert focus.step is not None
    assert any(touch.writes and focus.element in touch.elements for touch in trace.steps[focus.step].touches)
    assert f"; written at line {trace.steps[focus.step].line} by tile m=16, n=16" in words


def test_the_view_begins_at_the_first_wrong_element():
    u = np.arange(24, dtype=np.float32).reshape(8, 3)
    arguments = u, np.zeros_like(u), np.zeros(8, np.float32)
    wanted = np.vstack([np.zeros((1, 3), np.float32), u[:-1]])
    right = tiles(MODULE.gap, *arguments, expect={"v": wanted})
    assert (right.data.findings, right.data.focus) == ((), None)
    view = tiles(MODULE.gap, *arguments, expect={"v": wanted + (wanted == u[4, 1]), "w": np.zeros(8)})
    first, second = view.data.findings
    assert first.startswith(
        "v: 1 of 24 are not as expected, the first is v[5, 1] = 13, expected 14; written at line 12 by"
    )
    assert second.startswith("w: 8 of 8 are not as expected, the first is w[0] = 3, expected 0")
    focus = view.data.focus
    assert focus is not None
    assert (focus.array, focus.element) == (1, 16)
    assert focus.step is not None
    assert view.data.steps[focus.step].line == 12
    assert first.replace("&", "&amp;") in view.plain_html()
    never = tiles(MODULE.gap, *arguments, expect={"v": np.roll(u, 1, 0)})
    assert never.data.findings[0].endswith("no tile writes it")
    assert never.data.focus == Focus(None, 1, 0)


def test_functions_of_operators_have_no_outputs_to_compare():
    with pytest.raises(BadExpectation, match="outputs of a kernel"):
        tiles(attention, *QKV, expect=1.0)
