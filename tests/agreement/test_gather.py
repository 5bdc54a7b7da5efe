"""Gathering by a tile of indices on every target: sizes, offsets, dtypes, ragged ends and indices outside the array."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.every_target import everywhere
from tessera import compile_source
from tessera.core.base import dtypes
from tessera.core.errors.catalog import TypeMismatch

ROWS_OF = """
@kernel
def k(W: {dtype}[v, c], ids: {index}[n], out: mut {dtype}[n, c]):
    for m in tile.range(n, step={rows}):
        for t in tile.range(c, step={columns}):
            out[m:m+{rows}, t:t+{columns}] = W[ids[m:m+{rows}], t:t+{columns}]
"""


def indices(draw: np.random.Generator, count: int, size: int, kind: type[np.integer[Any]]) -> np.ndarray[Any, Any]:
    """Indices of which some are outside: before the array, and after its end."""
    low = 0 if np.dtype(kind).kind == "u" else -2
    return cast("np.ndarray[Any, Any]", draw.integers(low, size + 2, count).astype(kind))


def numbers(draw: np.random.Generator, dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    kind = dtypes.BY_NAME[dtype]
    values = draw.integers(0, 2 if kind.kind == "bool" else 100, shape)
    return cast("np.ndarray[Any, Any]", np.asarray(values, np.int64).astype(kind.numpy))


def gathered(table: np.ndarray, ids: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """`table[ids]`, and what was there before where an index is outside."""
    result = otherwise.copy()
    known = (ids.astype(np.int64) >= 0) & (ids.astype(np.int64) < len(table))
    result[known] = table[ids[known]]
    return result


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i8", "u16", "i64", "bool", "fp8_e4m3"])
@settings(max_examples=2, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.sampled_from([5, 8, 16, 31, 64]),
    st.sampled_from([(4, 16), (8, 8), (3, 5), (16, 32)]),
    st.sampled_from([np.int32, np.int64, np.uint8]),
    st.integers(0, 2**16),
)
def test_rows(dtype: str, n: int, v: int, c: int, tile: tuple[int, int], kind: type, seed: int):
    draw = np.random.default_rng(seed)
    name = {np.int32: "i32", np.int64: "i64", np.uint8: "u8"}[kind]
    text = ROWS_OF.format(dtype=dtype, index=name, rows=tile[0], columns=tile[1])
    table, ids = numbers(draw, dtype, v, c), indices(draw, n, v, kind)
    before = numbers(draw, dtype, n, c)
    everywhere(text, (table, ids, before), (table, ids, gathered(table, ids, before)))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "bool"])
@settings(max_examples=2, deadline=None)
@given(st.integers(1, 30), st.integers(1, 20), st.sampled_from([1, 4, 16, 32]), st.integers(0, 2**16))
def test_elements_and_columns(dtype: str, n: int, size: int, step: int, seed: int):
    """A vector by a vector of indices; columns of a row, with the rows dropped."""
    text = f"""
@kernel
def k(x: {dtype}[v], M: {dtype}[4, v], ids: i64[n], out: mut {dtype}[n], more: mut {dtype}[n, 4], one: mut {dtype}[n]):
    for t in tile.range(n, step={step}):
        where = ids[t:t+{step}]
        out[t:t+{step}] = x[where]
        more[t:t+{step}, :] = M[:, where].T
        one[t:t+{step}] = M[2, where]
"""
    draw = np.random.default_rng(seed)
    x, M = numbers(draw, dtype, size), numbers(draw, dtype, 4, size)
    ids = indices(draw, n, size, np.int64)
    out, more, one = numbers(draw, dtype, n), numbers(draw, dtype, n, 4), numbers(draw, dtype, n)
    want = (x, M, ids, gathered(x, ids, out), gathered(M.T.copy(), ids, more), gathered(M[2], ids, one))
    everywhere(text, (x, M, ids, out, more, one), want)


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 20), st.integers(1, 12), st.integers(0, 2**16))
def test_what_is_outside_is_absent(n: int, v: int, seed: int):
    """It takes part in nothing, and gives way to `other=`; what a sum of a row needs is the row."""
    text = """
@kernel
def k(W: f32[v, 8], ids: i32[n], total: mut f32[8], top: mut f32[n], padded: mut f32[n, 8], there: mut i32[n]):
    for m in tile.range(n, step=32):
        found = W[ids[m:m+32], :]
        total[:] = tile.sum(found, axis=0)
        top[m:m+32] = tile.max(found, axis=1)
        padded[m:m+32, :] = tile.load(W[ids[m:m+32], :], other=-1.0)
        there[m:m+32] = tile.cast(tile.valid(W[ids[m:m+32], 3]), i32)
"""
    draw = np.random.default_rng(seed)
    table, ids = -numbers(draw, "f32", v, 8), indices(draw, n, v, np.int32)
    known = (ids >= 0) & (ids < v)
    top = np.full(n, 9, np.float32)
    want = (
        table, ids, table[ids[known]].sum(axis=0), np.where(known, table.max(axis=1)[np.where(known, ids, 0)], top),
        np.where(known[:, None], table[np.where(known, ids, 0)], np.float32(-1)), known.astype(np.int32),
    )  # fmt: skip
    fresh = np.zeros(8, np.float32), top, np.zeros((n, 8), np.float32), np.full(n, 7, np.int32)
    everywhere(text, (table, ids, *fresh), want)


def test_computed_indices_and_products():
    """A tile of indices may be computed; what is gathered may be multiplied."""
    text = """
@kernel
def k(W: f32[40, 16], ids: i32[32], B: f32[16, 8], out: mut f32[32, 8]):
    rows = W[(ids[:] * 3 + 1) % 40, :]
    out[:] = tile.dot(rows, B, exact=True)
"""
    draw = np.random.default_rng(0)
    table, ids = numbers(draw, "f32", 40, 16), draw.integers(0, 1000, 32).astype(np.int32)
    b = numbers(draw, "f32", 16, 8)
    want = table[(ids * 3 + 1) % 40] @ b
    everywhere(text, (table, ids, b, np.zeros((32, 8), np.float32)), (table, ids, b, want))


def test_what_is_written_later_is_not_gathered():
    """A gather reads what the array has when its statement runs."""
    text = """
@kernel
def k(x: mut f32[64], ids: i32[64], out: mut f32[64]):
    before = x[ids[:]]
    x[:] = x[:] + 100.0
    out[:] = before
    x[:] = before + x[ids[:]]
"""
    x, ids = np.arange(64, dtype=np.float32), np.arange(63, -1, -1).astype(np.int32)
    want = (x[ids] + x[ids] + 100, ids, x[ids])
    everywhere(text, (x, ids, np.zeros(64, np.float32)), want)


def test_lanes_have_no_part_in_it():
    """Where lanes share a buffer the group gathers from it."""
    text = """
@kernel tile[(64,)]
def k(x: f32[64], ids: i32[64], out: mut f32[64]):
    i = tile.linear_id()
    buffer = tshared.alloc[f32](64)
    buffer[i] = x[i] * 2.0
    tbarrier()
    out[:] = buffer[ids[:]]
"""
    x, ids = np.arange(64, dtype=np.float32), (np.arange(64) * 7 % 64).astype(np.int32)
    everywhere(text, (x, ids, np.zeros(64, np.float32)), (x, ids, 2 * x[ids]), ("interpret", "cpu", "cuda"))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("y[0:4] = x[tile.cast(ids[0:4], f32)]", "must be an integer or a row of integers"),
        ("y[0:4] = x[tile.reshape(ids[0:4], 2, 2)]", "must be an integer or a row of integers"),
        ("y[ids[0:4]] += x[0:4]", "where two indices are equal is not clear"),
    ],
)
def test_what_is_refused(statement: str, message: str):
    module = compile_source(f"@kernel\ndef k(x: f32[n], ids: i32[n], y: mut f32[n]):\n    {statement}\n")
    with pytest.raises(TypeMismatch, match=rf"^[^\n]*(?:{message})"):
        module.k(np.zeros(8, np.float32), np.zeros(8, np.int32), np.zeros(8, np.float32))


def test_rows_are_loaded_in_vectors_and_assembled():
    """On a GPU, where the columns are sliced at multiples of 16 bytes."""
    module = compile_source(ROWS_OF.format(dtype="bf16", index="i32", rows=32, columns=64))
    table = np.zeros((100, 64), dtypes.bf16.numpy)
    compiled = module.k.compile(table, np.zeros(64, np.int32), table[:64].copy(), target="cuda:sm_90a")
    assert "ld.global.v4.b32" in compiled.ir("ptx")
    assert "LDG.E.128" in compiled.ir("sass")


def test_two_axes_are_not_gathered_at_once():
    text = "@kernel\ndef k(x: f32[n, n], ids: i32[n], y: mut f32[n]):\n    y[0:4] = tile.sum(x[ids[0:4], ids[0:4]], axis=0)\n"
    with pytest.raises(TypeMismatch, match="2 axes are indexed by tiles"):
        compile_source(text).k(np.zeros((8, 8), np.float32), np.zeros(8, np.int32), np.zeros(8, np.float32))
