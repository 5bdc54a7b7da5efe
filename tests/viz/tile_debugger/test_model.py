"""The tiles view's model: statistics, samples, and what is left out of a page."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support import stepped_kernels as kernels
from tessera.viz.base.payload import as_text, encode
from tessera.viz.tile_debugger.elements import elements_of
from tessera.viz.tile_debugger.model import BINS, model_of, sample_stride, statistics, variable_model
from tessera.viz.tile_debugger.recording import Launch, record
from tessera.viz.tile_debugger.trace import Variable

ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=6), elements=st.floats(width=32))


@given(ARRAYS)
def test_statistics_count_every_value_once(data: np.ndarray):
    found = statistics(data)
    assert found.count == data.size
    finite = data[np.isfinite(data)]
    assert found.nan == np.isnan(data).sum()
    assert found.nan + found.inf + len(finite) == data.size
    assert sum(found.bins) == len(finite)
    if len(finite):
        assert (found.least, found.greatest) == (float(finite.min()), float(finite.max()))
        assert len(found.bins) in (1, BINS)


def test_absent_elements_do_not_count():
    found = statistics(np.asarray([1.0, np.nan, 3.0]), np.asarray([True, False, True]))
    assert (found.count, found.nan, found.absent, found.mean) == (2, 0, 1, 2.0)


def test_a_histogram_of_even_numbers_is_even():
    assert statistics(np.arange(160)).bins == (10,) * 16


@given(st.lists(st.integers(1, 500), max_size=3), st.integers(1, 300))
def test_samples_are_regular_and_small(shape: list[int], most: int):
    stride = sample_stride(shape, most)
    left = np.empty(shape, np.uint8)[tuple(slice(None, None, step) for step in stride)]
    assert left.size <= most
    assert np.prod(shape, dtype=int) > most or set(stride) <= {1}


def test_values_of_a_sample_are_those_of_the_variable():
    data = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    model = variable_model(Variable("total", "f32", data), values=True)
    assert model.stride == (2, 2)
    assert model.values is not None
    assert np.array_equal(model.values, data[::2, ::2])
    assert variable_model(Variable("total", "f32", data), values=False).values is None


def test_touches_of_the_model_are_those_of_the_trace():
    trace = record(Launch.of(kernels.softmax, (np.ones((6, 10), np.float32), np.zeros((6, 10), np.float32)), {}, None))
    model = model_of(trace)
    for step, shown in zip(trace.steps, model.steps, strict=True):
        assert [t.elements.tolist() for t in step.touches] == [elements_of(t.elements).tolist() for t in shown.touches]
    assert [(tile.name, tile.reads, tile.writes) for tile in model.tiles] == [
        ("r=0", ("[0:4, 0:10]", ""), ("", "[0:4, 0:10]")),
        ("r=4", ("[4:6, 0:10]", ""), ("", "[4:6, 0:10]")),
    ]
    store = next(touch for step in model.steps for touch in step.touches if touch.writes)
    assert store.asked == ((0, 4), (0, 16))
    assert store.outside == 24
    assert model.lines[0].startswith("def softmax") or model.lines[0].startswith("@kernel")


def test_a_page_stays_small_whatever_the_launch():
    shape = (1 << 10, 1 << 10)
    trace = record(Launch.of(kernels.softmax, (np.ones(shape, np.float32), np.zeros(shape, np.float32)), {}, None))
    model = model_of(trace)
    assert any("64 of 256 tiles were recorded" in each for each in model.left_out)
    assert any("too large for this page" in each for each in model.left_out)
    assert len(as_text(encode(model))) < 2_000_000
