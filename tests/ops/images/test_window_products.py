"""Products of windows with filters, of images with zeros between their pixels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.ops.images.spatial import WindowAxis
from tessera.ops.images.window_products import ConvolutionForm, Phase


@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 4), st.integers(0, 4), st.integers(2, 4), st.booleans())
def test_phases_read_the_taps_that_meet_pixels(
    size: int, taps: int, before: int, after: int, spacing: int, falling: bool
):
    """By the definition: tap t of result o reads pixel p where o - before + t is p times the spacing."""
    axis = WindowAxis(size=size, taps=taps, before=before, after=after, spacing=spacing)
    if axis.windows < 1:
        return
    phase = Phase.of(axis)
    index = phase.tap(0, 1, falling=falling)
    for o in range(axis.windows):
        block, q = divmod(o + phase.first, spacing)
        assert block < phase.blocks
        read = {(block + j - phase.before, index.at((q, j))) for j in range(phase.taps)}
        numbered = {(p, taps - 1 - t if falling else t) for p, t in read}
        expected = {((o - before + t) // spacing, t) for t in range(taps) if (o - before + t) % spacing == 0}
        assert {(p, t) for p, t in numbered if 0 <= t < taps} == expected


@pytest.mark.parametrize(("rank", "layout", "last"), [(1, "NCW", False), (2, "NHWC", True), (3, "NDHWC", True)])
def test_layouts(rank: int, layout: str, last: bool):
    form = ConvolutionForm(rank=rank, layout=layout, groups=1)
    assert form.channels_last == last
    shape = np.ones((2, *range(3, 4 + rank)))
    assert form.pixels(shape) == (shape.shape[1:-1] if last else shape.shape[2:])  # type: ignore[arg-type]
    assert form.channels(shape) == shape.shape[-1 if last else 1]  # type: ignore[arg-type]
