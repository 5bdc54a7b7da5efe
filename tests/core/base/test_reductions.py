"""The fixed association, against its definition written out element by element."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.reductions import BLOCK, COLUMNS, identity, scan_block, tree_cumsum, tree_sum


def by_definition(x: np.ndarray) -> np.generic:
    """Sum a vector as the module's docstring says, one addition at a time."""
    partial: list[Any] = []
    for start in range(0, max(1, len(x)), BLOCK):
        block = x[start : start + BLOCK]
        columns: list[Any] = []
        for c in range(COLUMNS):
            chain = list(block[c::COLUMNS])
            total = identity("sum", x.dtype)[()]
            for value in chain:
                total = total + value
            columns.append(total)
        while len(columns) > 1:
            half = len(columns) // 2
            columns = [columns[i] + columns[i + half] for i in range(half)]
        partial.append(columns[0])
    while len(partial) > 1:
        partial = [sum(partial[i + 1 : i + 2], partial[i]) for i in range(0, len(partial), 2)]
    return partial[0]


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 4095, 4096, 4097, 12289, 20000])
def test_every_bit_is_as_defined(n: int):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    assert tree_sum(x, 0) == by_definition(x)


@given(st.integers(1, 300), st.integers(1, 5), st.integers(0, 1))
def test_axes(n: int, m: int, axis: int):
    x = np.random.default_rng(n * m).standard_normal((n, m)).astype(np.float32)
    want = np.array([tree_sum(line, 0) for line in np.moveaxis(x, axis, -1)])
    np.testing.assert_array_equal(tree_sum(x, axis), want)


def test_the_identity_keeps_the_sign_of_zero():
    assert np.signbit(tree_sum(np.array([-0.0], np.float32), 0))
    assert not np.signbit(tree_sum(np.array([-0.0, 0.0], np.float32), 0))


@pytest.mark.parametrize(
    ("kind", "dtype", "value"),
    [
        ("max", np.float32, -np.inf),
        ("min", np.int8, 127),
        ("max", np.uint8, 0),
        ("min", np.bool_, True),
        ("sum", np.int64, 0),
    ],
)
def test_identities(kind: str, dtype: type, value: object):
    assert identity(kind, np.dtype(dtype))[()] == value


def test_integers_wrap():
    x = np.full(3, 2**31 - 1, np.int32)
    with np.errstate(over="ignore"):
        assert tree_sum(x, 0) == np.int32(2**31 - 3)


@pytest.mark.parametrize(
    ("extent", "block"), [(0, 1), (1, 1), (7, 7), (16, 16), (17, 17), (32, 16), (34, 2), (96, 16), (45, 15)]
)
def test_blocks_of_running_sums(extent: int, block: int):
    assert scan_block(extent) == block


def cumulated_by_definition(x: np.ndarray, left_out: int = 0) -> list[Any]:
    """Running sums of a vector as the module's docstring says, block after block."""
    block = scan_block(len(x))
    rows = [x[start : start + block] for start in range(0, len(x), block)]
    totals = np.array([by_definition(row) for row in rows], x.dtype)
    before = cumulated_by_definition(totals, 1) if len(rows) > 1 else [None]
    found: list[Any] = []
    for row, total in zip(rows, before, strict=True):
        for i in range(block):
            kept = np.full(block, identity("sum", x.dtype), x.dtype)
            kept[: max(0, i + 1 - left_out)] = row[: max(0, i + 1 - left_out)]
            found.append(by_definition(kept) if total is None else total + by_definition(kept))
    return found


@given(st.integers(1, 300), st.integers(0, 2**16))
def test_running_sums(n: int, seed: int):
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    np.testing.assert_array_equal(tree_cumsum(x, 0), cumulated_by_definition(x))
    np.testing.assert_allclose(tree_cumsum(x, 0), np.cumsum(x.astype(np.float64)), atol=1e-3)
    both = np.stack([x, -x])
    np.testing.assert_array_equal(tree_cumsum(both, 1), tree_cumsum(both.T, 0).T)


def test_running_sums_keep_negative_zero():
    assert np.signbit(tree_cumsum(np.full(40, -0.0, np.float32), 0)).all()
