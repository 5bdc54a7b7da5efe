"""Blocks of a mask agree with the mask at every element."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cascades import E, absolute, exp, maximum
from tessera.core.base.dtypes import f64, i32, i64
from tessera.core.graph.expr import Argument, Expr
from tessera.lowering.schedule.cascades.evaluate import evaluate
from tessera.lowering.schedule.domains import ColumnBound, MaskForm, common_indicator, domain

I, J, N, W = (E(Argument(number, i64)) for number in range(4))
DOCUMENTS = E(Argument(4, i64))

MASKS: dict[str, Callable[[], E]] = {
    "causal": lambda: I >= J,
    "causal, strictly": lambda: J < I,
    "causal, shifted": lambda: I - J >= -3,
    "ends": lambda: J < N,
    "window": lambda: (I >= J) & (I - J <= W),
    "both sides": lambda: absolute(I - J) <= 5,
    "not far": lambda: ~(absolute(I - J) > 4),
    "greater of two": lambda: maximum(I - J, J - 2 * I) <= 3,
    "stride": lambda: 3 * J <= 2 * I + 1,
    "decreasing": lambda: I + J >= 12,
    "diagonal": lambda: J.equals(I),
    "rows too": lambda: (I < 9) & (I >= J),
    "nothing": lambda: (J < 0) & (I >= J),
    "one length of documents": lambda: (J // 5).equals(I // 5),
    "blocks": lambda: (I + 2) // 4 >= J // 4,
    "earlier blocks": lambda: J // 3 < (I - 1) // 3,
    "later blocks, strides": lambda: (2 * J + 1) // 6 > (3 * I - 4) // 6,
    "blocks, decreasing": lambda: (20 - I) // 4 <= (J + 3) // 4,
    "prefix": lambda: (I >= J) | (J < 4),
    "documents and causal": lambda: (I >= J) & DOCUMENTS.equals(1),
    "not equal": lambda: ~J.equals(3) & (J < N),
}
PARTLY = {"prefix", "documents and causal", "not equal"}


def _holds(mask: Expr, rows: Sequence[int], columns: Sequence[int], symbols: dict[int, int]) -> np.ndarray:
    i, j = np.array(rows)[:, None], np.array(columns)[None]
    documents = j * 7 % 3
    got = evaluate(mask, [i, j, np.array(symbols[2]), np.array(symbols[3]), documents])
    return np.broadcast_to(got, (len(rows), len(columns)))


@pytest.mark.parametrize("name", MASKS)
@settings(max_examples=60, deadline=None)
@given(
    row=st.integers(0, 30), rows=st.integers(1, 9), width=st.integers(1, 9), extent=st.integers(1, 40),
    length=st.integers(0, 40), window=st.integers(0, 12),
)  # fmt: skip
def test_blocks_agree_with_the_mask(name: str, row: int, rows: int, width: int, extent: int, length: int, window: int):
    mask = MASKS[name]().expr
    symbols = {2: length, 3: window}
    blocks = domain(mask, 0, 1, (2, 3)).blocks(row, rows, width, extent, symbols)
    for block in range(-(-extent // width)):
        first = block * width
        whole = first + width <= extent
        here = _holds(mask, range(row, row + rows), range(first, min(first + width, extent)), symbols)
        kind = blocks.kind(block)
        if kind == "empty":
            assert not here.any()
        if kind == "full":
            assert whole
            assert here.all()
        if here.all() and whole and name not in PARTLY:
            assert kind == "full"


def test_causal_blocks_are_counted():
    causal = domain((I >= J).expr, 0, 1)
    blocks = causal.blocks(128, 64, 32, 1024)
    assert (blocks.first, blocks.last, blocks.full_first, blocks.full_last) == (0, 6, 0, 4)
    assert [blocks.kind(block) for block in (0, 3, 4, 5, 6)] == ["full", "full", "partial", "partial", "empty"]


def test_window_blocks_are_counted():
    window = domain(((I >= J) & (I - J <= 100)).expr, 0, 1)
    blocks = window.blocks(256, 64, 32, 1024)
    assert (blocks.first, blocks.last, blocks.full_first, blocks.full_last) == (4, 10, 7, 8)


def test_bounds_are_affine_in_the_first_row():
    found = domain(((I >= J) & (I - J <= W)).expr, 0, 1, (3,))
    first_row = MaskForm(0, 1)
    lower, upper = found.visited(first_row, 64)
    assert lower == (ColumnBound(MaskForm(0, 1, 0, ((3, -1),))),)
    assert upper == (ColumnBound(MaskForm(63, 1)),)
    inner = found.full(first_row, 64)
    assert inner == ((ColumnBound(MaskForm(63, 1, 0, ((3, -1),))),), (ColumnBound(MaskForm(0, 1)),))


def test_documents_are_always_partial():
    found = domain(MASKS["documents and causal"]().expr, 0, 1)
    assert found.full(MaskForm(0, 1), 8) is None
    assert len(found.others) == 1
    blocks = found.blocks(8, 8, 4, 64)
    assert (blocks.first, blocks.last) == (0, 4)
    assert blocks.full_first == blocks.full_last


def test_no_mask_is_full_but_for_the_end():
    blocks = domain(None, 0, 1).blocks(0, 8, 16, 40)
    assert [blocks.kind(block) for block in range(3)] == ["full", "full", "partial"]


def test_narrower_indices_are_the_same_indices():
    narrow = E(Argument(1, i32)).to(i64)
    assert domain((narrow <= I).expr, 0, 1).upper == (ColumnBound(MaskForm(0, 1)),)


@pytest.mark.parametrize("mask", [
    lambda: I * J >= 3,
    lambda: exp(J.to(f64)) >= 2.0,
    lambda: absolute(I - J) >= 3,
    lambda: J.equals(absolute(I)),
    lambda: absolute(I).equals(J),
    lambda: DOCUMENTS <= J,
    lambda: (J // 2).equals(I // 3),
    lambda: (I + J) // 4 >= I // 4,
    lambda: (7 - J) // 4 >= I // 4,
    lambda: J // 4 >= I,
])  # fmt: skip
def test_other_forms_are_kept_as_conditions(mask: Callable[[], E]):
    found = domain(mask().expr, 0, 1)
    assert (found.lower, found.upper, found.rows) == ((), (), ())
    assert found.others == (mask().expr,)


def test_only_conditions_of_all_moments_restrict_the_loop():
    causal, ends = (I >= J).expr, (J < N).expr
    assert common_indicator([((I >= J) & (J < N)).expr, causal]) == (causal,)
    assert common_indicator([causal, None]) == ()
    assert common_indicator([]) == ()
    assert common_indicator([ends, ends]) == (ends,)
