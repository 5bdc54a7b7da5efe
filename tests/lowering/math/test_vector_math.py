"""Mathematical functions: errors in units in the last place over the whole range, and the special cases."""

import math
from functools import cache

import numpy as np
import pytest

from support.builder import Builder
from support.tile_kernels import host
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.math.vector_math import NAMES
from tessera.runtime.launch.cpu import CpuLauncher

UNARY = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf")
# ulp allowed: (f32, f64).  NumPy's f64 functions, the reference of f32, are exact enough; those of f64 are themselves
# off by up to an ulp.
LIMITS = {"exp": (1, 2), "exp2": (1, 2), "log": (1, 2), "log2": (2, 2.5), "sin": (1, 2.5), "cos": (1, 2.5), "tanh": (2, 3),
          "erf": (2, 3), "pow": (1, 3)}  # fmt: skip
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, 1e-45, -3e-39, 88.72, 88.73, -87.4,
           -103.9, -104.5, 3.95, 1e38, 710.1, -746.0)  # fmt: skip


@cache
def launcher(name: str, dtype: DType, operands: int = 1) -> CpuLauncher:
    """for t in tile.range(n, step=256): out[t:] = name(a[t:], ...)"""
    b = Builder(name)
    arrays = [b.array("abc"[i], dtype, "n") for i in range(operands)]
    out = b.array("out", dtype, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(256), kind="tile") as loop:
        tiles = [b.load(array, [loop.index], [256]) for array in arrays]
        b.store(out, b.value(name, *tiles), [loop.index], [256])
    return CpuLauncher(compile_program(b.program(), host(), observe=False).artifact)


def evaluate(name: str, *operands: np.ndarray) -> np.ndarray:
    dtype = next(d for d in (f64, f32, f16, bf16) if d.numpy == operands[0].dtype)
    out = np.empty_like(operands[0])
    launcher(name, dtype, len(operands))(*operands, out)
    return out


def reference(name: str, *operands: np.ndarray) -> np.ndarray:
    wide = [x.astype(np.float64) for x in operands]
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.array([math.erf(v) for v in wide[0]])
        return getattr(np, "power" if name == "pow" else name)(*wide)


def ulps(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place; infinite where one is NaN or infinite and the other is something else."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(actual.dtype)
        unit = np.maximum(np.spacing(np.abs(rounded)), np.finfo(actual.dtype).smallest_subnormal).astype(np.float64)
        distance = np.abs(actual.astype(np.float64) - exact) / unit
        same = (np.isnan(actual) & np.isnan(rounded)) | (actual == rounded)
        wild = ~np.isfinite(actual) | ~np.isfinite(rounded)
    return np.where(same & wild, 0.0, np.where(wild, math.inf, distance))


def spread32(step: int) -> np.ndarray:
    """f32 numbers of every size, NaN and infinities among them."""
    x = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(math.nan), x)  # a signaling NaN warns wherever it is touched


@pytest.mark.parametrize("name", UNARY)
def test_f32_over_the_whole_range(name: str):
    random = np.random.default_rng(0)
    x = np.concatenate(
        [spread32(65521), random.uniform(-10, 10, 40000).astype(np.float32), np.array(SPECIAL, np.float32)]
    )
    assert ulps(evaluate(name, x), reference(name, x)).max() <= LIMITS[name][0]


@pytest.mark.parametrize("name", UNARY)
def test_f64_over_the_whole_range(name: str):
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(-700, 700, 4000))
    x = np.concatenate(
        [random.uniform(-10, 10, 8000), random.uniform(-745, 710, 4000), sizes, -sizes, SPECIAL, [5e-324]]
    )
    if name in ("sin", "cos"):
        x = np.concatenate([x, np.arange(1, 3000) * (np.pi / 2), random.uniform(-1e6, 1e6, 3000)])
    assert ulps(evaluate(name, x), reference(name, x)).max() <= LIMITS[name][1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers(dtype: type[np.generic]):
    random = np.random.default_rng(0)
    base = np.concatenate([np.abs(random.standard_normal(4000)), np.exp(random.uniform(-80, 80, 4000)),
                           -random.integers(1, 20, 500).astype(float)]).astype(dtype)  # fmt: skip
    exponent = np.concatenate([random.uniform(-20, 20, 4000), random.uniform(-2, 2, 4000),
                               random.integers(-20, 20, 500).astype(float)]).astype(dtype)  # fmt: skip
    limit = LIMITS["pow"][dtype == np.float64]
    assert ulps(evaluate("pow", base, exponent), reference("pow", base, exponent)).max() <= limit


def standard_power(x: float, y: float) -> float:
    """pow of the C standard; Python raises where it overflows or has no value."""
    odd = abs(y) % 2 == 1
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, -1.0 if x < 0 and odd else 1.0)
    except ValueError:  # a zero to a negative power is infinite, any other case has no value
        return math.copysign(math.inf, x if odd else 1.0) if x == 0 else math.nan


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_special_numbers(dtype: type[np.generic]):
    numbers = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, -2.5, 1e30], dtype)
    base, exponent = (a.ravel() for a in np.meshgrid(numbers, numbers))
    actual = evaluate("pow", base, exponent)
    for x, y, value in zip(base.tolist(), exponent.tolist(), actual, strict=True):
        expected = standard_power(x, y)
        with np.errstate(all="ignore"):
            expected = dtype(expected)
            close = np.isclose(value, expected, rtol=1e-6) or (np.isnan(value) and np.isnan(expected))
        assert close, (x, y, value, expected)
        assert np.isnan(expected) or np.signbit(value) == np.signbit(expected), (x, y, value)


def test_exact_cases():
    whole = np.arange(-126, 128).astype(np.float32)
    powers = np.ldexp(np.float32(1), whole.astype(np.int32))  # np.exp2 misses some where it uses AVX-512
    assert np.array_equal(evaluate("exp2", whole), powers)
    assert np.array_equal(evaluate("log2", powers), whole)
    zeros = np.array([0.0, -0.0], np.float32)
    for name in ("sin", "tanh", "erf"):
        assert np.signbit(evaluate(name, zeros)).tolist() == [False, True]


@pytest.mark.parametrize("name", ["sqrt", "floor", "ceil", "abs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_that_round_once(name: str, dtype: type[np.generic]):
    x = np.concatenate([spread32(1000003).astype(dtype), np.array(SPECIAL, dtype), np.array([-1.5, 2.5], dtype)])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    assert np.array_equal(evaluate(name, x), expected, equal_nan=True)


def test_rsqrt_is_two_operations():
    x = np.abs(spread32(1000003))
    with np.errstate(all="ignore"):
        assert np.array_equal(evaluate("rsqrt", x), np.float32(1) / np.sqrt(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_sixteen_bits_go_through_f32(dtype: DType):
    x = np.arange(0, 1 << 16, 7).astype(np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        expected = evaluate("exp", x.astype(np.float32)).astype(dtype.numpy).astype(np.float32)
    assert np.array_equal(evaluate("exp", x).astype(np.float32), expected, equal_nan=True)


def test_lanes_do_not_matter():
    x = np.random.default_rng(1).standard_normal(700).astype(np.float32) * 30
    x[::50] *= np.float32(1e9)
    for name in ("exp", "sin", "erf"):
        alone = np.concatenate([evaluate(name, part) for part in np.split(x, 7 * 20)])
        assert np.array_equal(evaluate(name, x), alone)


def test_every_function_is_known():
    assert set(UNARY) | {"exp_not_positive", "pow", "sqrt", "rsqrt", "floor", "ceil", "abs", "fma"} == NAMES
