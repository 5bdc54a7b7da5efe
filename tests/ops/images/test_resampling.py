"""Images of another size, by each mode, against weights of pixels by their definition."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.image_references import adaptively_pooled, resampled
from support.operators import TARGETS, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

LINES = {1: "linear", 2: "bilinear", 3: "trilinear"}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=3),
    st.sampled_from(("nearest", "nearest-exact", "linear", "cubic")), st.booleans(),
)  # fmt: skip
def test_another_size(axes: list[tuple[int, int]], kind: str, align_corners: bool):
    rank, size = len(axes), [to for _, to in axes]
    corners = align_corners and not kind.startswith("nearest")
    if kind == "cubic" and rank != 2:
        return
    mode = {"linear": LINES[rank], "cubic": "bicubic"}.get(kind, kind)
    x = drawn((2, 3, *(n for n, _ in axes)), np.float64, 5)
    want = x
    for n, (extent, to) in enumerate(axes):
        want = resampled(want, 2 + n, to, extent / to, kind, align_corners=corners)
    with overridden(target="interpret"):
        close(op.interpolate(x, size, mode=mode, align_corners=corners), want, 1e-12)


@pytest.mark.parametrize(("factor", "size"), [(2, 10), (3.0, 15), (0.5, 2), (1.7, 8)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_factor(factor: float, size: int, mode: str):
    """The factor itself says which pixels are read, not the extents, as in PyTorch."""
    x = drawn((2, 3, 5), np.float64, 1)
    got = everywhere(lambda x: op.interpolate(x, scale_factor=factor, mode=mode), x)
    assert got.shape == (2, 3, size)
    close(got, resampled(x, 2, size, 1 / factor, mode), 1e-13)


def test_means():
    x = drawn((2, 3, 7, 6), np.float32, 1)
    got = everywhere(lambda x: op.interpolate(x, (3, 2), mode="area"), x)
    close(got, adaptively_pooled(x.astype(np.float64), (3, 2), kind="avg"), 2e-6)


def test_nearest_pixels_of_integers():
    x = np.arange(6, dtype=np.int32).reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(
        everywhere(lambda x: op.interpolate(x, scale_factor=2), x)[0, 0],
        [[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5], [3, 3, 4, 4, 5, 5]],
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "to no size, or to two"),
        ({"size": 3, "scale_factor": 2}, "to no size, or to two"),
        ({"size": 0}, "size=0 of 1 spatial axes"),
        ({"size": (3, 4)}, "size=.3, 4. of 1 spatial axes"),
        ({"scale_factor": 0.1}, "leaves no pixel"),
        ({"size": 3, "mode": "bicubic"}, "mode='bicubic' of"),
        ({"size": 3, "align_corners": True}, "align_corners of mode='nearest'"),
    ],
)
def test_bad_operands(how: dict[str, Any], message: str, target: str):
    with overridden(target=target), pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        op.interpolate(drawn((1, 1, 4), np.float32), **how)
