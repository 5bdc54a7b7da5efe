"""Tile operations compiled for the CPU agree with the interpreter on every bit."""

import numpy as np
import pytest

from support.builder import Builder
from support.tile_kernels import Kernel, check, numbers, outputs
from tessera.core.base.dtypes import ALL, DType, bf16, boolean, f16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i32, i64, u8, u32

SHAPES = [(1,), (5,), (16,), (100,), (3, 1), (1, 40), (7, 33), (2, 3, 20)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_load_arithmetic_store(shape: tuple[int, ...]):
    k = Kernel("k")
    x, y = k.take("x", *shape), k.take("y", *shape)
    total = k.value("add", k.value("mul", x, y), k.value("div", x, y))
    k.put("out", k.value("max", total, k.full(k.const(0.0, f32), *shape)))
    program = k.program()
    check(program, numbers(shape), numbers(shape, seed=1), *outputs(program))


@pytest.mark.parametrize("dtype", [d for d in ALL if not d.is_storage], ids=str)
def test_every_dtype_moves_through_registers_and_scratch(dtype: DType):
    k = Kernel("k")
    x, y = k.take("x", 6, 37, dtype=dtype), k.take("y", 6, 37, dtype=dtype)
    less = k.compare("lt", x, y)
    k.put("least", k.select(less, x, y))
    k.put("less", less)
    program = k.program()
    check(program, numbers((6, 37), dtype), numbers((6, 37), dtype, 1), *outputs(program))


@pytest.mark.parametrize(("source", "target"), [(f64, f16), (f64, bf16), (f32, bf16), (bf16, f16), (f16, f64), (i32, f16),
                                                (f32, i8), (f32, u8), (u8, f32), (i64, i8), (boolean, f32),
                                                (f32, boolean), (i32, bf16), (u32, f64), (f16, fp8_e4m3),
                                                (fp8_e5m2, f64), (i32, fp8_e5m2), (fp8_e4m3, u8)], ids=str)  # fmt: skip
def test_casts(source: DType, target: DType):
    k = Kernel("k")
    k.put("out", k.cast(k.take("x", 130, dtype=source), target))
    program = k.program()
    x = numbers((130,), f64)
    x = (x * 1e4).astype(source.numpy) if source.is_float else numbers((130,), source)
    check(program, x, *outputs(program))


def test_doubles_round_once_to_sixteen_bits():
    # 1 + 2^-11 + 2^-40 lies above the middle of two f16 numbers; by way of f32 it would land on the middle.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 65519.999999999, -(2.0**-25) - 2.0**-60, 1e39])
    k = Kernel("k")
    tile = k.take("x", 5, dtype=f64)
    k.put("half", k.cast(tile, f16))
    program = k.program()
    out = check(program, x, *outputs(program))[1]
    assert out.tolist() == [1 + 2.0**-10, 1.0, 65504.0, -(2.0**-24), np.inf]


@pytest.mark.parametrize(("before", "after"), [((7, 1), (7, 40)), ((1, 40), (7, 40)), ((1, 1), (7, 40)),
                                               ((5, 1, 20), (5, 6, 20)), ((1, 6, 1), (5, 6, 20))], ids=str)  # fmt: skip
def test_broadcast(before: tuple[int, ...], after: tuple[int, ...]):
    k = Kernel("k")
    x, y = k.take("x", *before), k.take("y", *after)
    k.put("out", k.value("sub", k.broadcast(x, *after), y))
    program = k.program()
    check(program, numbers(before), numbers(after, seed=1), *outputs(program))


@pytest.mark.parametrize("dtype", [f32, f16, i8, f64, boolean], ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (16, 16), (64, 40), (33, 70), (1, 9)], ids=str)
def test_transpose(shape: tuple[int, int], dtype: DType):
    k = Kernel("k")
    k.put("out", k.transpose(k.take("x", *shape, dtype=dtype), 1, 0))
    program = k.program()
    check(program, numbers(shape, dtype), *outputs(program))


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 0, 2)], ids=str)
def test_transpose_of_three_axes(order: tuple[int, int, int]):
    k = Kernel("k")
    turned = k.transpose(k.take("x", 5, 18, 20), *order)
    k.put("sum", k.value("add", turned, turned))
    k.put("out", turned)
    program = k.program()
    check(program, numbers((5, 18, 20)), *outputs(program))


def test_transposed_and_plain_meet():
    k = Kernel("k")
    x = k.take("x", 40, 40)
    k.put("out", k.value("add", x, k.transpose(x, 1, 0)))
    program = k.program()
    check(program, numbers((40, 40)), *outputs(program))


@pytest.mark.parametrize(("before", "after"), [((40,), (40, 1)), ((40, 1), (1, 40)), ((64, 16), (1024,)), ((1024,), (32, 32)),
                                               ((6, 20), (120,)), ((120,), (8, 15)), ((4, 5, 6), (20, 6)),
                                               ((3, 7), (7, 3))], ids=str)  # fmt: skip
def test_reshape(before: tuple[int, ...], after: tuple[int, ...]):
    k = Kernel("k")
    x = k.take("x", *before)
    shaped = k.reshape(k.value("add", x, x), *after)
    k.put("out", k.value("mul", shaped, shaped))
    program = k.program()
    check(program, numbers(before), *outputs(program))


def test_arange_and_masks():
    k = Kernel("k")
    start = k.const(3)
    index = k.arange(start, 50)
    even = k.compare("eq", k.value("mod", index, k.full(k.const(2), 50)), k.full(k.const(0), 50))
    x = k.take("x", 50)
    k.put("out", k.select(even, x, k.cast(index, f32)))
    program = k.program()
    check(program, numbers((50,)), *outputs(program))


@pytest.mark.parametrize("start", [-70, -3, 0, 5, 90, 200])
@pytest.mark.parametrize("dtype", [f32, i8], ids=str)
def test_edges_read_zero_and_write_nothing(start: int, dtype: DType):
    b = Builder("edges")
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "m", mutable=True)
    at = b.const(start)
    tile = b.load(x, [at], [64])
    b.store(y, b.value("add", tile, b.full(b.const(1, dtype), 64)), [at], [64])
    check(b.program(), numbers((100,), dtype), numbers((97,), dtype, 1))


@pytest.mark.parametrize("row", [-2, 0, 6, 9])
@pytest.mark.parametrize("column", [-17, 0, 12, 40])
def test_edges_of_two_axes(row: int, column: int):
    b = Builder("edges")
    x, y = b.array("x", f32, "h", "w"), b.array("y", f32, "p", "q", mutable=True)
    starts = [b.const(row), b.const(column)]
    tile = b.load(x, starts, [4, 32])
    b.store(y, b.value("add", tile, b.full(b.const(1.0, f32), 4, 32)), starts, [4, 32])
    check(b.program(), numbers((8, 45)), numbers((9, 50), seed=1))


def test_dropped_axes_and_columns():
    b = Builder("columns")
    x, y = b.array("x", f32, "a", "b", "c"), b.array("y", f32, "a", "c", mutable=True)
    zero = b.const(0)
    column = b.load(x, [zero, b.const(2), b.const(3)], [20, 1, 1], dropped=(1, 2))
    line = b.load(x, [b.const(1), b.const(1), zero], [1, 1, 30], dropped=(0, 1))
    b.store(y, column, [zero, b.const(4)], [20, 1], dropped=(1,))
    b.store(y, line, [b.const(5), zero], [1, 30], dropped=(0,))
    outside = b.load(x, [zero, b.const(9), zero], [2, 1, 30], dropped=(1,))
    b.store(y, outside, [b.const(7), zero], [2, 30])
    check(b.program(), numbers((20, 4, 30)), numbers((20, 30), seed=1))


def test_strided_arrays():
    b = Builder("strided")
    x = b.array("x", f32, "h", "w", contiguous=False)
    y = b.array("y", f32, "p", "q", mutable=True, contiguous=False)
    zero = b.const(0)
    b.store(y, b.load(x, [zero, zero], [10, 24]), [zero, zero], [10, 24])
    x, y = numbers((24, 10)).T, numbers((9, 60), seed=1)[:, ::2]
    out = y.copy(order="K")
    out[:, :24] = x[:9]
    assert np.array_equal(check(b.program(), x, y)[1][:, :24], out[:, :24])


def test_a_store_does_not_change_what_was_loaded_before():
    b = Builder("order")
    x = b.array("x", f32, 40, mutable=True)
    y = b.array("y", f32, 40, mutable=True)
    zero = b.const(0)
    before = b.load(x, [zero], [40])
    b.store(x, b.full(b.const(7.0, f32), 40), [zero], [40])
    after = b.load(x, [zero], [40])
    b.store(y, b.value("add", before, after), [zero], [40])
    out = check(b.program(), numbers((40,)), np.zeros(40, np.float32))[1]
    assert np.array_equal(out, numbers((40,)) + 7)


def test_updates_in_place():
    b = Builder("update")
    x = b.array("x", f32, "n", "n", mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero, zero], [24, 24])
    b.store(x, b.value("add", tile, b.transpose(tile, 1, 0)), [zero, zero], [24, 24])
    moved = b.load(x, [zero, zero], [10, 24])
    b.store(x, moved, [b.const(5), zero], [10, 24])
    check(b.program(), numbers((24, 24)))


def test_one_load_read_by_a_loop_that_writes():
    b = Builder("loop")
    x = b.array("x", f32, 64, mutable=True)
    zero = b.const(0)
    start = b.load(x, [zero], [64])
    with b.loop(zero, b.const(3), b.const(1)) as loop:
        now = b.load(x, [zero], [64])
        b.store(x, b.value("add", now, start), [zero], [64])
        loop.yields = ()
    out = check(b.program(), numbers((64,)))[0]
    assert np.array_equal(out, numbers((64,)) * np.float32(4))
