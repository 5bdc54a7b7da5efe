"""Reductions agree with `tree_sum` and with the interpreter on every bit, for every extent, axis and dtype."""

import numpy as np
import pytest

from support.tile_kernels import Kernel, check, compiled, numbers, outputs
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8, u16, u32, u64
from tessera.core.base.reductions import tree_sum

LENGTHS = [1, 2, 3, 15, 16, 17, 31, 64, 100, 127, 128, 129, 1000, 4095, 4096, 4097, 8192, 13000]


@pytest.mark.parametrize("n", LENGTHS)
def test_sums_of_a_row(n: int):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", n), "sum", 0))
    program = k.program()
    x = numbers((n,))
    assert compiled(program, x, *outputs(program))[1][0] == tree_sum(x, 0)


@pytest.mark.parametrize("n", [1, 2, 3, 65, 100, 128, 129, 300, 4096, 4500])
@pytest.mark.parametrize("columns", [1, 5, 16, 40])
def test_sums_of_columns(n: int, columns: int):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", n, columns), "sum", 0))
    program = k.program()
    x = numbers((n, columns))
    assert np.array_equal(compiled(program, x, *outputs(program))[1], tree_sum(x, 0))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [f64, f16, bf16, i32, i64, i8], ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((300,), 0), ((7, 50), 1), ((150, 20), 0), ((5, 9, 33), 1), ((6, 32), None)],
                         ids=str)  # fmt: skip
def test_dtypes_and_axes(kind: str, dtype: DType, shape: tuple[int, ...], axis: int | None):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", *shape, dtype=dtype), kind, axis))
    program = k.program()
    check(program, numbers(shape, dtype), *outputs(program))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [u8, u16, u32, u64], ids=str)
def test_unsigned_integers_have_no_sign(kind: str, dtype: DType):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", 3, 50, dtype=dtype), kind, 1))
    program = k.program()
    most = np.iinfo(dtype.numpy).max
    x = np.random.default_rng(0).integers(0, most, (3, 50), dtype=dtype.numpy, endpoint=True)
    check(program, x, *outputs(program))


@pytest.mark.parametrize("shape", [(6, 20, 33), (6, 20, 32), (1, 500), (40, 1)], ids=str)
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_everything_in_row_major_order(shape: tuple[int, ...], kind: str):
    k = Kernel("k")
    x = k.take("x", *shape)
    k.put("out", k.reduce(k.value("mul", x, x), kind))
    program = k.program()
    check(program, numbers(shape), *outputs(program))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((200,), 0), ((3, 70), 1), ((70, 20), 0)], ids=str)
@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
def test_nan_wins(kind: str, shape: tuple[int, ...], axis: int, dtype: DType):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", *shape, dtype=dtype), kind, axis))
    program = k.program()
    for place in (0, 2, -1):
        x = numbers(shape, dtype)
        x.reshape(-1)[place] = np.nan
        out = compiled(program, x, *outputs(program))[1]
        with np.errstate(invalid="ignore"):
            expected = getattr(np, kind)(x, axis=axis).reshape(out.shape)
        assert np.array_equal(out, expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize(("shape", "axis"), [((2,), 0), ((5,), 0), ((200,), 0), ((3, 70), 1), ((70, 20), 0), ((9, 150), 0),
                                             ((4, 1000), 1), ((6, 9), None)], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [f64, f32, f16, bf16], ids=str)
@pytest.mark.parametrize("features", ["", "+avx2"])
def test_of_two_zeros_the_negative_one_is_smaller(
    kind: str, shape: tuple[int, ...], axis: int | None, dtype: DType, features: str
):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", *shape, dtype=dtype), kind, axis))
    program = k.program()
    random = np.random.default_rng(3)
    for negative in (0.5, 0.02, 0.98, 1.0):
        x = np.where(random.random(shape) < negative, -0.0, 0.0).astype(dtype.numpy)
        if negative == 0.5:  # zeros beside numbers that are further from the result
            x = np.where(random.random(shape) < 0.3, np.array(-1 if kind == "max" else 1, dtype.numpy), x)
        out = compiled(program, x, *outputs(program), features=features)[1]
        zero = x == 0
        signs = np.signbit(x)
        wanted = (zero & ~signs).any(axis) if kind == "max" else (zero & signs).any(axis)
        negative_result = ~wanted if kind == "max" else wanted
        assert np.array_equal(
            np.signbit(out), np.where(zero.any(axis), negative_result, kind == "max").reshape(out.shape)
        )
        assert np.array_equal(out != 0, ~zero.any(axis).reshape(out.shape))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("shape", [(40,), (3, 50)], ids=str)
def test_booleans_any_and_all(kind: str, shape: tuple[int, ...]):
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", *shape, dtype=boolean), kind, len(shape) - 1))
    program = k.program()
    for x in (np.zeros(shape, bool), np.ones(shape, bool), numbers(shape, boolean)):
        check(program, x, *outputs(program))


def test_signed_zeros_and_infinities():
    k = Kernel("k")
    k.put("out", k.reduce(k.take("x", 4, 20), "sum", 1))
    program = k.program()
    x = np.zeros((4, 20), np.float32)
    x[0] = -0.0
    x[1, 3], x[2, 3], x[2, 4], x[3, 0] = np.inf, np.inf, -np.inf, -1e-45
    out = compiled(program, x, *outputs(program))[1]
    assert np.signbit(out[0])
    assert out[1] == np.inf
    assert np.isnan(out[2])
    assert out[3] == np.float32(-1e-45)


def test_a_transposed_tile_is_summed_across_its_vectors():
    k = Kernel("k")
    turned = k.transpose(k.take("x", 30, 40), 1, 0)
    k.put("rows", k.reduce(turned, "sum", 1))
    k.put("columns", k.reduce(turned, "sum", 0))
    program = k.program()
    check(program, numbers((30, 40)), *outputs(program))


def test_edges_count_as_zero():
    k = Kernel("k")
    x, start = k.array("x", f32, "n", "m"), k.const(3)
    tile = k.load(x, [start, start], [8, 40])
    k.put("rows", k.reduce(tile, "sum", 1))
    k.put("columns", k.reduce(tile, "max", 0))
    k.put("all", k.reduce(tile, "sum"))
    program = k.program()
    check(program, numbers((9, 30)), *outputs(program))


def test_a_softmax():
    k = Kernel("k")
    k.put("out", k.softmax(k.take("x", 5, 100), -1))
    program = k.program()
    x = numbers((5, 100))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(compiled(program, x, *outputs(program))[1], e / e.sum(1, keepdims=True), rtol=1e-6, atol=0)
