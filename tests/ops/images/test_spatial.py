"""Windows along an axis, and the arguments that say where they are."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.image_references import window_count
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, Term
from tessera.ops.images.spatial import WindowAxis, padding_per_axis, per_axis


@given(
    st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(1, 2), st.booleans()
)  # fmt: skip
def test_the_number_of_windows(size: int, taps: int, stride: int, padding: int, dilation: int, partial: bool):
    axis = WindowAxis(
        size=size, taps=taps, stride=stride, before=padding, after=padding, dilation=dilation, partial=partial
    )
    if size + 2 * padding > dilation * (taps - 1):
        assert axis.windows == window_count(size, taps, stride, padding, dilation, partial=partial)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2))
def test_padded_windows_reach_outside(size: int, taps: int, stride: int, before: int, after: int):
    axis = WindowAxis(size=size, taps=taps, stride=stride, before=before, after=after)
    read = [n * stride + tap - before for n in range(axis.windows) for tap in range(taps)]
    assert axis.is_padded == any(not 0 <= each < size for each in read) or not read


def test_a_single_tap_has_no_axis():
    assert WindowAxis(size=5, taps=1, stride=2, before=1).pixel(3, 4) == Affine(-1, (Term(3, 2),))
    assert WindowAxis(size=5, taps=2, dilation=3).pixel(0, 1) == Affine(0, (Term(0, 1), Term(1, 3)))


def test_numbers_per_axis():
    assert per_axis(2, 3, "stride") == (2, 2, 2)
    assert per_axis([1, 2], 2, "stride") == (1, 2)
    with pytest.raises(OperandMismatch, match="stride=\\[1, 2\\] for 1 spatial axis"):
        per_axis([1, 2], 1, "stride")
    with pytest.raises(OperandMismatch, match=r"stride=1\.5 for 2 spatial axes"):
        per_axis(1.5, 2, "stride")  # type: ignore[arg-type]
    assert per_axis(np.int32(2), 2, "stride") == (2, 2)  # type: ignore[arg-type]
    with pytest.raises(OperandMismatch, match="dilation 0: it is less than 1"):
        per_axis(0, 2, "dilation")


@pytest.mark.parametrize(
    ("padding", "expected"),
    [(1, ((1, 1), (1, 1))), ((1, 2), ((1, 1), (2, 2))), ([(0, 1), 2], ((0, 1), (2, 2))), ("valid", ((0, 0), (0, 0))),
     ("same", ((1, 1), (1, 2)))],
)  # fmt: skip
def test_padding(padding: Any, expected: tuple[tuple[int, int], ...]):  # noqa: ANN401
    assert padding_per_axis(padding, (3, 4), (1, 1), (1, 1)) == expected


@pytest.mark.parametrize("padding", ["full", (1, 2, 3), -1, [(1, 2, 3), 0], 1.5, [1.5, 0]])
def test_no_padding(padding: Any):  # noqa: ANN401
    with pytest.raises(OperandMismatch, match="padding"):
        padding_per_axis(padding, (3, 4), (1, 1), (1, 1))
