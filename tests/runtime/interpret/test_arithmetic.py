"""Element-wise operations against Python's own integers and floats."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from tessera.runtime.interpret.arithmetic import binary, cast, compare, constant, unary

INTEGERS = (i64, i32, i16, i8, u64, u32, u16, u8)


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def integers(dtype: DType) -> st.SearchStrategy[int]:
    info = np.iinfo(dtype.numpy)
    edges = st.sampled_from([int(info.min), int(info.max), 0, 1])
    return st.one_of(edges, st.integers(int(info.min), int(info.max)), st.integers(max(-9, int(info.min)), 9))


def power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64) if abs(a) > 1 else a**b if b < 100 or a != -1 else (-1) ** (b % 2)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


def python(opcode: str, a: int, b: int, dtype: DType) -> int:
    """What the spec says, with integers of any size."""
    width = dtype.bits
    table = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "floordiv": lambda: 0 if b == 0 else a // b,
        "mod": lambda: 0 if b == 0 else a % b,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: a << b if 0 <= b < width else 0,
        "shr": lambda: a >> (b if 0 <= b < width else width),
        "pow": lambda: power(a, b),
    }
    return wrap(table[opcode](), dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_integers(dtype: DType, data: st.DataObject) -> None:
    a, b = data.draw(integers(dtype)), data.draw(integers(dtype))
    x, y = np.asarray([a], dtype.numpy), np.asarray([b], dtype.numpy)
    with np.errstate(all="ignore"):
        for opcode in (
            "add",
            "sub",
            "mul",
            "div",
            "floordiv",
            "mod",
            "min",
            "max",
            "and",
            "or",
            "xor",
            "shl",
            "shr",
            "pow",
        ):
            result = binary(opcode, x, y, dtype)
            assert result.dtype == dtype.numpy
            assert int(result[0]) == python(opcode, a, b, dtype), (opcode, a, b)


def test_integer_unary() -> None:
    with np.errstate(all="ignore"):
        values = np.array([-128, -1, 0, 127], np.int8)
        assert unary("neg", values, i8).tolist() == [-128, 1, 0, -127]
        assert unary("abs", values, i8).tolist() == [-128, 1, 0, 127]
        assert unary("not", values, i8).tolist() == [127, 0, -1, -128]
        assert unary("not", np.array([True, False]), boolean).tolist() == [False, True]
        assert unary("floor", values, i8).tolist() == values.tolist()


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_short_floats_round_once(opcode: str, dtype: DType) -> None:
    random = np.random.default_rng(0)
    a, b = (random.normal(size=2000).astype(dtype.numpy) for _ in range(2))
    exact = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[opcode]
    expected = exact(a.astype(np.float64), b.astype(np.float64))
    # f64 has more than twice the bits, so that rounding its result is rounding the exact one.
    single = expected.astype(np.float32).astype(dtype.numpy) if dtype == bf16 else expected.astype(dtype.numpy)
    assert np.array_equal(binary(opcode, a, b, dtype), single)


def test_float_edges() -> None:
    nan, inf = np.nan, np.inf
    with np.errstate(all="ignore"):
        for dtype in (f64, f32, f16, bf16):
            a = np.array([1.0, nan, 1.0, -7.0, 7.0], dtype.numpy)
            b = np.array([nan, 1.0, 0.0, 2.0, -2.0], dtype.numpy)
            minimum = binary("min", a, b, dtype).astype(np.float64)
            assert np.array_equal(minimum, [nan, nan, 0, -7, -2], equal_nan=True)
            assert np.array_equal(binary("div", a, b, dtype)[2:], np.array([inf, -3.5, -3.5], dtype.numpy))
            assert binary("mod", a, b, dtype)[3:].tolist() == [1.0, -1.0]
            assert binary("floordiv", a, b, dtype)[3:].tolist() == [-4.0, -4.0]
            assert compare("lt", a, b).tolist() == [False, False, False, True, False]
            assert compare("ne", a, a).tolist() == [False, True, False, False, False]


def test_the_lesser_zero_is_negative() -> None:
    for dtype in (f64, f32, f16, bf16):
        a, b = np.array([0.0, -0.0, 0.0, -0.0], dtype.numpy), np.array([0.0, 0.0, -0.0, -0.0], dtype.numpy)
        assert np.signbit(binary("max", a, b, dtype)).tolist() == [False, False, False, True]
        assert np.signbit(binary("min", a, b, dtype)).tolist() == [False, True, True, True]


@pytest.mark.parametrize("opcode", ["exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "erf", "rsqrt"])
def test_functions_are_the_rounded_f64_ones(opcode: str) -> None:
    functions: dict[str, Callable[[float], float]] = {
        "exp2": lambda v: 2.0**v,
        "erf": math.erf,
        "rsqrt": lambda v: 1 / math.sqrt(v),
    }
    function: Callable[[float], float] = functions.get(opcode) or getattr(math, opcode)
    values = [0.25, 0.5, 1.0, 2.5]
    for dtype in (f64, f32, f16, bf16):
        expected = np.array([function(v) for v in values]).astype(np.float32 if dtype == bf16 else dtype.numpy)
        result = unary(opcode, np.array(values, dtype.numpy), dtype)
        assert result.dtype == dtype.numpy
        assert np.allclose(result.astype(np.float64), expected.astype(np.float64), rtol=2.0 ** -(dtype.bits // 2 - 1))
        if dtype == f32:
            assert np.array_equal(result, expected)


def test_functions_outside_their_domain() -> None:
    with np.errstate(all="ignore"):
        values = np.array([-1.0, 0.0], np.float32)
        assert np.isnan(unary("log", values, f32)[0])
        assert unary("log", values, f32)[1] == -np.inf
        assert unary("rsqrt", values, f32)[1] == np.inf
        assert unary("exp", np.array(1000.0, np.float32), f32) == np.inf


def test_float_to_integer_truncates_and_saturates() -> None:
    values = np.array([2.9, -2.9, 1e30, -1e30, np.inf, -np.inf, np.nan, 127.5, 128.0, -128.9])
    with np.errstate(all="ignore"):
        assert cast(values, i8).tolist() == [2, -2, 127, -128, 127, -128, 0, 127, 127, -128]
        assert cast(values, u8).tolist() == [2, 0, 255, 0, 255, 0, 0, 127, 128, 0]
        limits = [2, -2, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 0, 127, 128, -128]
        assert cast(values, i64).tolist() == limits
        assert cast(values, u64).tolist() == [2, 0, 2**64 - 1, 0, 2**64 - 1, 0, 0, 127, 128, 0]
        assert cast(values.astype(np.float16), i32).tolist()[2:6] == [2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]
        assert cast(np.array(2.0**63 - 1024), i64) == 2**63 - 1024


def test_other_casts() -> None:
    with np.errstate(all="ignore"):
        assert cast(np.array([300, -1]), u8).tolist() == [44, 255]
        assert cast(np.array([0.0, -0.0, np.nan, 0.1], np.float32), boolean).tolist() == [False, False, True, True]
        assert cast(np.array([0, 256]), boolean).tolist() == [False, True]
        assert cast(np.array([True, False]), f16).tolist() == [1.0, 0.0]
        assert cast(np.array([True, False]), i32).dtype == np.int32
        assert cast(np.array([70000.0], np.float32), f16)[0] == np.inf
        assert float(cast(np.array([2**24 + 1]), f32)[0]) == 2.0**24


def test_constants() -> None:
    assert constant(0.1, f32) == np.float32(0.1)
    assert constant(3, f16).dtype == np.float16
    assert int(constant(300, u8)) == 44
    assert int(constant(-1, u32)) == 2**32 - 1
    assert int(constant(2**63 - 1, i64)) == 2**63 - 1
    assert bool(constant(value=True, dtype=boolean)) is True
    assert int(constant(-5, i16)) == -5
