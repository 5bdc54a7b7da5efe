"""Whole kernels against NumPy, and what `run` promises around them."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest

from support import programs
from support.interpret_programs import Writer
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i64
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import OutOfBounds
from tessera.core.program.program import Domain, Value
from tessera.runtime.interpret import run as run_module
from tessera.runtime.interpret.run import Report, run


def random(*shape: int, dtype: type[np.generic] | np.dtype = np.float32) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16], ids=str)
def test_saxpy(dtype: DType) -> None:
    x, y = random(1000, dtype=dtype.numpy), random(1000, dtype=dtype.numpy)[::-1].copy()
    wide = np.float64 if dtype == f64 else np.float32
    product = (dtype.numpy.type(2.5).astype(wide) * x.astype(wide)).astype(dtype.numpy)
    expected = (product.astype(wide) + y.astype(wide)).astype(dtype.numpy)
    report = run(programs.saxpy(dtype), [x, y, 2.5], symbols={"n": 1000})
    assert np.array_equal(y, expected)
    assert report == Report(1, 1000, 2000, 1000, 3000 * dtype.bytes)


def test_saxpy_in_pieces_and_on_strided_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "WINDOW", 64)
    base, y = random(2000), random(1000)
    expected = np.float32(0.5) * base[::-2] + y
    run(programs.saxpy(contiguous=False), [base[::-2], y, 0.5], symbols={"n": 1000}, sanitize=True)
    assert np.array_equal(y, expected)


def test_group_sum_is_the_fixed_association() -> None:
    x, out = random(100_000), np.zeros(2, np.float32)
    run(programs.group_sum(), [x, out], symbols={"n": 100_000, "grid_groups": 2}, grid=(2,))
    columns = np.zeros(128, np.float32)
    for start in range(0, 100_000, 128):
        part = x[start : start + 128]
        columns[: len(part)] += part
    assert out.tolist() == [tree_sum(columns, 0)] * 2


def test_matmul_is_a_chain_in_k_order() -> None:
    a, b, c = random(20, 17), random(17, 9), np.zeros((20, 9), np.float32)
    run(programs.matmul(8, 8, 8), [a, b, c], symbols={"M": 20, "K": 17, "N": 9})
    whole = np.zeros((20, 9), np.float32)
    run(programs.matmul(32, 16, 32), [a, b, whole], symbols={"M": 20, "K": 17, "N": 9})
    assert np.array_equal(c, whole)
    assert np.allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def test_warp_reduce() -> None:
    x, out = random(256), np.zeros(8, np.float32)
    run(programs.warp_reduce(), [x, out], symbols={"n": 256, "w": 8})
    lanes = x.reshape(8, 32)
    for offset in (16, 8, 4, 2, 1):
        lanes = lanes[:, :offset] + lanes[:, offset : 2 * offset]
    assert np.array_equal(out, lanes[:, 0])


def test_softmax_tile_copy_pipeline_and_countdown() -> None:
    x, y = random(10, 16), np.zeros((10, 16), np.float32)
    run(programs.softmax_rows(16), [x, y], symbols={"R": 10})
    assert np.allclose(y, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-6)
    line, out = random(300), np.zeros(300, np.float32)
    run(programs.tile_copy(), [line, out], symbols={"n": 300})
    assert np.array_equal(out, 2 * line)
    a, b, c = random(8, 40), random(40, 4), np.zeros((8, 4), np.float32)
    run(programs.pipeline(8, 8, 4), [a, b, c], symbols={"K": 40})
    assert np.allclose(c, a @ b, atol=1e-5)
    counts = np.zeros(5, np.int64)
    run(programs.countdown(), [counts], symbols={"n": 5})
    assert counts.tolist() == [4, 3, 2, 1, 0]


def test_fused_mlp() -> None:
    shapes = ((6, 5), (5, 7), (7,), (7, 3), (3,))
    x, w1, b1, w2, b2 = (random(*shape) for shape in shapes)
    out = np.zeros((6, 3), np.float32)
    run(programs.fused_mlp(6, 5, 7, 3), [x, w1, b1, w2, b2, out], symbols={})
    assert np.allclose(out, np.maximum(x @ w1 + b1, 0) @ w2 + b2, atol=1e-5)


def test_booleans_and_scalars() -> None:
    b = Writer("flags")
    flags, out = b.array("flags", boolean, "n"), b.array("out", boolean, "n", mutable=True)
    on = b.scalar("on", boolean)
    i = b.id("thread")
    b.write(out, b.value("xor", b.read(flags, i), on), i)
    source, result = np.array([True, False, True]), np.zeros(3, np.bool_)
    run(b.program(domain=Domain("lanes", ("n",))), [source, result, True], symbols={"n": 3})
    assert result.tolist() == [False, True, False]


def test_no_warning_escapes() -> None:
    x, y = np.array([1e38, np.inf, np.nan], np.float32), np.full(3, 3e38, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(programs.saxpy(), [x, y, 10.0], symbols={"n": 3})
        run(
            programs.elementwise("floordiv", i64),
            [np.array([1]), np.array([0]), y64 := np.array([7])],
            symbols={"n": 1},
        )
    assert np.array_equal(y, [np.inf, np.inf, np.nan], equal_nan=True)
    assert y64.tolist() == [0]


def test_an_empty_launch() -> None:
    empty = np.zeros(0, np.float32)
    assert run(programs.saxpy(), [empty, empty.copy(), 1.0], symbols={"n": 0}) == Report(0, 0, 0, 0, 0)


def test_wrong_arguments_are_refused() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="x is array<nxf32>, not an array of float64"):
        run(programs.saxpy(), [x.astype(np.float64), x, 1.0], symbols={"n": 4})
    with pytest.raises(TypeError, match="rank 2"):
        run(programs.saxpy(), [x.reshape(2, 2), x, 1.0], symbols={"n": 4})
    with pytest.raises(TypeError, match="y needs an array"):
        run(programs.saxpy(), [x, 1.0, 1.0], symbols={"n": 4})


def test_a_finding_leaves_the_arrays_as_they_were() -> None:
    b = Writer("late")
    y = b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    b.write(y, b.const(1.0, f32), i)
    b.write(y, b.const(2.0, f32), b.value("add", i, b.const(1)))
    y0 = random(100)
    y1 = y0.copy()
    with pytest.raises(OutOfBounds) as caught:
        run(b.program(domain=Domain("lanes", ("n",))), [y1], symbols={"n": 100}, sanitize=True)
    assert np.array_equal(y0, y1)
    assert caught.value.source is not None


def endless() -> Writer:
    b = Writer("endless")
    zero = b.const(0)

    def same(carried: tuple[Value, ...]) -> tuple[Value, ...]:
        return carried

    b.repeat((zero,), lambda carried: b.compare("eq", carried[0], zero), same)
    return b


def test_cancelled_is_asked_in_every_trip() -> None:
    asked = itertools.count()
    with pytest.raises(KeyboardInterrupt):
        run(endless().program(), [], symbols={}, cancelled=lambda: next(asked) >= 50)
    assert next(asked) == 51


def test_a_keyboard_interrupt_passes_through() -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(endless().program(), [], symbols={}, cancelled=interrupt)
    y = np.ones(3, np.float32)
    run(programs.saxpy(), [y, y, 1.0], symbols={"n": 3})
    assert y.tolist() == [2, 2, 2]


def test_bf16_arrays_are_ml_dtypes() -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    y = x.copy()
    run(programs.elementwise("mul", bf16), [x, x, y], symbols={"n": 2})
    assert y.tolist() == [2.25, 4.0]
