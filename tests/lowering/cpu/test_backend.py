"""Whole kernels, compiled and run, against NumPy."""

import numpy as np
import pytest

from support import programs
from support.builder import Builder
from support.cpu import LARGE, SMALL, compiled, run
from tessera.core.base.dtypes import ALL, DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.program.program import Domain
from tessera.core.targets import CPU
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cpu.backend import generate
from tessera.lowering.tile.to_tile import to_tile

SIZES = 1, 31, 32, 33, 100, 8192, 8193, 20001


def numbers(dtype: DType, n: int, seed: int = 0):
    r = np.random.default_rng(seed)
    return (r.integers(0, 2, n) if dtype.kind == "bool" else r.integers(0, 50, n)).astype(dtype.numpy)


def lanes_of(n: int | str) -> Domain:
    return Domain("lanes", (n,))


# -- elementwise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_saxpy_touches_the_domain_and_nothing_else(n: int):
    x, y = np.random.default_rng(n).random((2, n + 40), np.float32)
    before = y.copy()
    run(programs.saxpy(), x[:n], y[:n], np.float32(2.5))
    np.testing.assert_array_equal(y[:n], np.float32(2.5) * x[:n] + before[:n])
    np.testing.assert_array_equal(y[n:], before[n:])


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("dtype", [f64, f16, bf16, i64, i32, i16, i8, u8])
def test_saxpy_of_every_dtype(dtype: DType, features: str | None):
    x, y = numbers(dtype, 1003, 1), numbers(dtype, 1003, 2)
    before = y.copy()
    run(programs.saxpy(dtype), x, y, dtype.numpy.type(3), features=features)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, dtype.numpy.type(3) * x + before)


def test_strided_arrays_are_read_through_their_strides():
    x = np.random.default_rng(0).random((777, 3), np.float32)
    y = np.zeros(777, np.float32)
    run(programs.saxpy(contiguous=False), x[:, 1], y, np.float32(2))
    np.testing.assert_array_equal(y, 2 * x[:, 1])


def casts(source: DType):
    """one output a dtype: out[i] = dtype(x[i])"""
    b = Builder("casts")
    x = b.array("x", source, "n")
    outs = [b.array(f"as_{dtype}", dtype, "n", mutable=True) for dtype in ALL]
    i = b.id("thread")
    value = b.read(x, i)
    for dtype, out in zip(ALL, outs, strict=True):
        b.write(out, b.cast(value, dtype), i)
    return b.program(domain=lanes_of("n"))


@pytest.mark.parametrize("source", ALL)
def test_casts_to_every_dtype(source: DType):
    values = numbers(source, 77)
    outs = [np.zeros(77, dtype.numpy) for dtype in ALL]
    run(casts(source), values, *outs)
    for out in outs:
        np.testing.assert_array_equal(out, values.astype(out.dtype))


@pytest.mark.parametrize("dtype", [f64, f32, f16, bf16])
def test_floats_round_once_an_operation(dtype: DType):
    r = np.random.default_rng(3)
    a, b = (r.standard_normal(500).astype(dtype.numpy) for _ in range(2))
    for opcode, function in (("add", np.add), ("mul", np.multiply), ("div", np.divide), ("max", np.maximum)):
        out = np.zeros(500, dtype.numpy)
        run(programs.elementwise(opcode, dtype), a, b, out)
        np.testing.assert_array_equal(out, function(a, b))


def test_comparisons_of_bools_and_halves():
    a, b = numbers(boolean, 99, 1), numbers(boolean, 99, 2)
    out = np.zeros(99, np.bool_)
    run(programs.elementwise("cmp", boolean, 2, boolean, predicate="lt"), a, b, out)
    np.testing.assert_array_equal(out, a < b)
    a, b = (np.random.default_rng(n).standard_normal(99).astype(np.float16) for n in (1, 2))
    run(programs.elementwise("cmp", f16, 2, boolean, predicate="ge"), a, b, out)
    np.testing.assert_array_equal(out, a >= b)


# -- memory ----------------------------------------------------------------------------------------------------


def stencil():
    """y[i] = x[i - 1] + x[i + 1]; what lies outside is 0"""
    b = Builder("stencil")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    one = b.const(1)
    left, right = b.read(x, b.value("sub", i, one)), b.read(x, b.value("add", i, one))
    b.write(y, b.value("add", left, right), i)
    return b.program(domain=lanes_of("n"))


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("n", [1, 2, 33, 64, 1000])
def test_stencil(n: int, features: str | None):
    x = np.random.default_rng(n).random(n, np.float32)
    y = np.full(n, 9, np.float32)
    run(stencil(), x, y, features=features)
    padded = np.concatenate([[0], x, [0]]).astype(np.float32)
    np.testing.assert_array_equal(y, padded[:-2] + padded[2:])


def permute(dtype: DType):
    """out[index[i]] = x[index[n - 1 - i]]"""
    b = Builder("permute")
    x, index, out = b.array("x", dtype, "n"), b.array("index", i64, "n"), b.array("out", dtype, "n", mutable=True)
    i = b.id("thread")
    back = b.value("sub", b.value("sub", b.dim("n"), b.const(1)), i)
    b.write(out, b.read(x, b.read(index, back)), b.read(index, i))
    return b.program(domain=lanes_of("n"))


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("dtype", [f64, f32, bf16, i8, boolean])
def test_gathers_and_scatters(dtype: DType, features: str | None):
    n = 301
    x = numbers(dtype, n, 5)
    index = np.random.default_rng(6).permutation(n)
    index[7] = n + 5  # outside: reads 0 and writes nothing
    out = np.zeros(n, dtype.numpy)
    run(permute(dtype), x, index, out, features=features)
    expected = np.zeros(n + 6, dtype.numpy)
    padded = np.concatenate([x, np.zeros(6, dtype.numpy)])
    expected[index] = padded[index[::-1]]
    np.testing.assert_array_equal(out, expected[:n])


def blur():
    """out[row, column] = x[row, column] + x[row, 4 - column], lanes along a group of 4 x 16"""
    b = Builder("blur")
    x, out = b.array("x", i32, "r", 5), b.array("out", i32, "r", 5, mutable=True)
    column, row = b.id("thread", 0), b.id("thread", 1)
    turned = b.value("sub", b.const(4), column)
    b.write(out, b.value("add", b.read(x, row, column), b.read(x, row, turned)), row, column)
    return b.program(domain=lanes_of("r"), group=(8, 16))


def test_two_axes_of_lanes_and_of_groups():
    x = np.arange(37 * 5, dtype=np.int32).reshape(37, 5) ** 2
    out = np.zeros_like(x)
    run(blur(), x, out, grid=(1, 3))
    np.testing.assert_array_equal(out, x + x[:, ::-1])


def copy_block():
    """buf = X[row : row + 9, 3, column : column + 40] by an asynchronous copy, then out[lane] = buf[lane // 8, lane]"""
    b = Builder("copy_block")
    x, out = b.array("X", f16, "r", "m", "c"), b.array("out", f16, 9, 40, mutable=True)
    row, column = b.scalar("row", i64), b.scalar("column", i64)
    buf = b.alloc(f16, 9, 40, name="buf")
    b.copy(buf, x, [row, b.const(3), column], [9, 1, 40], dropped=(1,))
    b.barrier()
    lane = b.id("lane")
    with b.loop(b.const(0), b.const(9), b.const(1)) as loop:
        b.write(out, b.read(buf, loop.index, lane), loop.index, lane)
    return b.program(domain=Domain("lanes", (40,)), group=(40,))


@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 30), (-3, -5), (100, 0), (2, -100)])
def test_copies_fill_with_zeros_outside_the_array(row: int, column: int):
    x = np.random.default_rng(0).random((10, 5, 60)).astype(np.float16)
    out = np.ones((9, 40), np.float16)
    run(copy_block(), x, out, row, column)
    padded = np.zeros((300, 400), np.float16)
    padded[120:130, 120:180] = x[:, 3]
    np.testing.assert_array_equal(out, padded[120 + row : 129 + row, 120 + column : 160 + column])


def choose_buffer():
    """buf = even if lane is even else odd; out[lane] = buf[lane]"""
    b = Builder("choose_buffer")
    out = b.array("out", f32, 64, mutable=True)
    lane = b.id("lane")
    buffers = [b.alloc(f32, 64, name=name) for name in ("even", "odd")]
    for value, buffer in zip((1.0, 2.0), buffers, strict=True):
        b.write(buffer, b.const(value, f32), lane)
    b.barrier()
    even = b.compare("eq", b.value("mod", lane, b.const(2)), b.const(0))
    chosen = b.op("select", (even, *buffers), buffers[0].type, "buf")
    b.write(out, b.read(chosen, lane), lane)
    return b.program(domain=lanes_of(64), group=(64,))


def test_lanes_may_choose_between_shared_buffers():
    out = np.zeros(64, np.float32)
    run(choose_buffer(), out)
    np.testing.assert_array_equal(out, np.tile([1, 2], 32))


# -- what comes out --------------------------------------------------------------------------------------------


def test_what_a_launch_has_to_know():
    saxpy, group_sum = compiled(programs.saxpy()), compiled(programs.group_sum())
    assert saxpy.entry == "tessera_saxpy"
    assert saxpy.bounded
    assert not group_sum.bounded
    assert saxpy.launch.kind == "lanes"
    assert group_sum.launch.group == (128,)
    assert [slot.kind for slot in saxpy.slots] == ["symbol", "pointer", "pointer", "scalar", "lanes"]
    assert group_sum.resources.shared_bytes == 128 * 4
    assert group_sum.resources.scratch_bytes >= 128 * 4


def test_levels_are_linked_to_the_operations_they_came_from():
    program = programs.saxpy()
    with shared_context():
        silent = generate(to_tile(program), program, CPU, False)
        seen = generate(to_tile(program), program, CPU, True)
    assert silent.listings == ()
    assert [listing.level for listing in seen.listings] == ["target", "llvm", "asm"]
    operations = list(program.body.walk())
    multiply = next(n for n, op in enumerate(operations) if op.opcode == "mul")
    for listing in seen.listings:
        mine = [line for line in listing.lines if multiply in line.ops]
        assert any("mul" in line.text for line in mine), listing.level
        assert all(operations[multiply].span in line.spans for line in mine)
    assembly = seen.listings[2]
    assert assembly.lines[0].text == "tessera_saxpy:"
    assert not any(line.text.lstrip().startswith(".") and ":" not in line.text for line in assembly.lines)


def test_the_host_is_named_as_llvm_names_it():
    target = host_target()
    assert target.name == "cpu"
    assert target.arch
    assert "+sse2" in target.features.split(",")


def test_code_for_a_lesser_processor_runs_here():
    program = programs.saxpy()
    with shared_context():
        code = generate(to_tile(program), program, type(CPU)("cpu", "x86-64", "+sse2"), True)
    assert "ymm" not in code.listings[2].text
    assert "zmm" not in code.listings[2].text


def test_an_unknown_operation_is_reported_where_it_stands():
    program = programs.elementwise("add", f32)
    with shared_context():
        lines = str(to_tile(program)).split("\n")
        lines.insert(2, '  %unknown = ub.poison : f32 loc("cell.py":3:7)')
        with pytest.raises(CompilerCrash, match=r"ub\.poison") as caught:
            generate(ir.Module.parse("\n".join(lines)), program, CPU, False)
    assert (caught.value.span.file, caught.value.span.line) == ("cell.py", 3)
