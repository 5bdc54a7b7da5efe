"""`tile.mulhi` on the interpreter, the CPU, the PTX machine and the tile machine: NumPy's bits on all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.every_target import everywhere
from tessera import compile_source
from tessera.core.errors.catalog import TypeMismatch

DTYPES = {"u8": np.uint8, "i16": np.int16, "u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}


def upper_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of Python's integers, shifted."""
    return (a.astype(object) * b.astype(object) >> 8 * a.itemsize).astype(a.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=2, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_mulhi(dtype: str, size: int, seed: int):
    text = f"""
@kernel
def k(a: {dtype}[n], b: {dtype}[n], out: mut {dtype}[2, n]):
    for t in tile.range(n, step=32):
        out[0, t:t+32] = tile.mulhi(a[t:t+32], b[t:t+32])
        out[1, t:t+32] = tile.mulhi(100, a[t:t+32])
"""
    limits = np.iinfo(DTYPES[dtype])
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(limits.min, limits.max, size, DTYPES[dtype], endpoint=True) for _ in range(2))
    a[0], b[-1] = limits.min, limits.min
    want = np.stack([upper_half(a, b), upper_half(a, np.full_like(a, 100))])
    everywhere(text, (a, b, np.zeros((2, size), a.dtype)), (a, b, want))


@pytest.mark.parametrize("signed", [False, True])
def test_mulhi_is_one_instruction_on_gpus(signed: bool):
    kind = "i32" if signed else "u32"
    text = f"@kernel\ndef k(a: {kind}[n], b: {kind}[n]):\n    i = tile.linear_id()\n    if i < n:\n"
    module = compile_source(f"{text}        b[i] = tile.mulhi(a[i], b[i])\n".replace("b: ", "b: mut "))
    a = np.zeros(64, np.int32 if signed else np.uint32)
    assert f"mul.hi.{'s' if signed else 'u'}32" in module.k.compile(a, a, target="cuda:sm_90a").ir("ptx")


def test_mulhi_of_two_literals_is_that_of_i64():
    text = "@kernel\ndef k(out: mut i64[1]):\n    out[0] = tile.mulhi(1 << 62, -12)\n"
    everywhere(text, (np.zeros(1, np.int64),), (np.array([-3]),))


def test_mulhi_of_floats_is_refused():
    module = compile_source("@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    y[:] = tile.mulhi(x[:], 3)\n")
    with pytest.raises(TypeMismatch, match=r"tile\.mulhi needs integers, not f32"):
        module.k(np.zeros(4, np.float32), np.zeros(4, np.float32))
