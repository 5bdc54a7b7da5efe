"""Storing and adding to the places that a tile of indices tells, on every target: in the order of the indices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.every_target import everywhere
from tessera import compile_source
from tessera.core.base import dtypes
from tessera.core.errors.catalog import ReadOnlyParameter, TesseraError, WrongArguments

BLOCKS = """
@kernel
def k(x: {dtype}[n, c], ids: i32[n], y: mut {dtype}[v, c]):
    for t in tile.range(c, step={columns}):
        for m in range(0, n, {rows}):
            {statement}
"""
PLACE = "y[ids[m:m+{rows}], t:t+{columns}]"
TILE = "x[m:m+{rows}, t:t+{columns}]"


def kernel(form: str, dtype: str, rows: int, columns: int) -> str:
    statement = form.format(place=PLACE, tile=TILE).format(rows=rows, columns=columns)
    return BLOCKS.format(dtype=dtype, rows=rows, columns=columns, statement=statement)


def values(draw: np.random.Generator, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    kind = dtypes.BY_NAME[dtype]
    if kind.is_float:
        numbers = draw.choice(np.array([0.1, -0.0, 3.7, -1e4, np.inf, -np.inf, np.nan, 1e-3]), shape)
        return np.asarray(numbers).astype(np.dtype(kind.numpy))
    return np.asarray(draw.integers(0, 2 if kind.kind == "bool" else 100, shape)).astype(np.dtype(kind.numpy))


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "u64", "bool", "fp8_e5m2"])
@settings(max_examples=2, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.sampled_from([1, 5, 16]),
    st.sampled_from([(4, 16), (3, 5)]),
    st.integers(0, 2**16),
)
def test_the_last_of_equal_indices_wins(dtype: str, n: int, v: int, c: int, tile: tuple[int, int], seed: int):
    draw = np.random.default_rng(seed)
    x, y = values(draw, dtype, n, c), values(draw, dtype, v, c)
    ids = draw.integers(-1, v + 1, n).astype(np.int32)
    want = y.copy()
    for row, place in zip(x, ids, strict=True):
        if 0 <= place < v:
            want[place] = row
    everywhere(kernel("{place} = {tile}", dtype, *tile), (x, ids, y), (x, ids, want))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32"])
@settings(max_examples=3, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from([1, 5, 16]),
    st.sampled_from([(4, 16), (3, 5)]),
    st.integers(0, 2**16),
)
def test_sums_have_the_order_of_the_indices(dtype: str, n: int, v: int, c: int, tile: tuple[int, int], seed: int):
    draw = np.random.default_rng(seed)
    x, y = values(draw, dtype, n, c), values(draw, dtype, v, c)
    ids = draw.integers(-1, v + 1, n).astype(np.int32)
    want = y.copy()
    with np.errstate(invalid="ignore"):
        for row, place in zip(x, ids, strict=True):
            if 0 <= place < v:
                want[place] = want[place] + row
    everywhere(kernel("tile.scatter_add({place}, {tile})", dtype, *tile), (x, ids, y), (x, ids, want))


def test_vectors_columns_and_absent_elements():
    """Absent elements are not stored, nor those of absent indices; `tile.store` is the same as writing."""
    text = """
@kernel
def k(x: f32[n], ids: i64[n], y: mut f32[v], M: mut f32[3, v], z: mut f32[v]):
    for t in range(0, n, 4):
        tile.scatter_add(y[ids[t:t+4]], x[t+1:t+5])
        M[1, ids[t:t+4]] = x[t:t+4] * 2.0
        tile.store(z[ids[t:t+4]], value=7.0)
"""
    x, ids = np.array([1, 2, 4, 8, 16, 32], np.float32), np.array([0, 3, 0, 9, -1, 3])
    y, M, z = np.zeros(5, np.float32), np.zeros((3, 5), np.float32), np.zeros(5, np.float32)
    more = M.copy()
    more[1, [0, 3]] = 8, 64
    want = np.array([2 + 8, 0, 0, 4, 0], np.float32)  # the last element has no right neighbour
    everywhere(text, (x, ids, y, M, z), (x, ids, want, more, np.array([7, 0, 0, 7, 0], np.float32)))


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("tile.scatter_add(y[0:4], x[0:4])", WrongArguments, "places that a tile of indices tells"),
        ("x[ids[0:4]] = y[0:4]", ReadOnlyParameter, "x is not declared mut"),
        ("tile.scatter_add(x[ids[0:4]], y[0:4])", ReadOnlyParameter, "x is not declared mut"),
    ],
)
def test_what_is_refused(statement: str, error: type[TesseraError], message: str):
    module = compile_source(f"@kernel\ndef k(x: f32[n], ids: i32[n], y: mut f32[n]):\n    {statement}\n")
    with pytest.raises(error, match=rf"^[^\n]*(?:{message})"):
        module.k(np.zeros(8, np.float32), np.zeros(8, np.int32), np.zeros(8, np.float32))
