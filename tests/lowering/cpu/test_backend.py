"""Whole kernels, compiled and run, against NumPy."""

import ctypes
import threading

import numpy as np
import pytest

from support import programs
from support.builder import Builder
from support.cpu import LARGE, SMALL, compiled, run
from tessera.core.base.dtypes import ALL, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.program.program import Block, Domain, Op, Value
from tessera.core.program.types import Scalar
from tessera.core.targets import CPU
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cpu.backend import generate
from tessera.lowering.tile.to_tile import to_tile
from tessera.runtime.launch.object_code import load

SIZES = 1, 31, 32, 33, 100, 8192, 8193, 20001


def numbers(dtype, n, seed=0):
    r = np.random.default_rng(seed)
    return (r.integers(0, 2, n) if dtype.kind == "bool" else r.integers(0, 50, n)).astype(dtype.numpy)


def lanes_of(n, group=None):
    return {"domain": Domain("lanes", (n,)), "group": group}


# -- elementwise -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_saxpy_touches_the_domain_and_nothing_else(n):
    x, y = np.random.default_rng(n).random((2, n + 40), np.float32)
    before = y.copy()
    run(programs.saxpy(), x[:n], y[:n], np.float32(2.5))
    np.testing.assert_array_equal(y[:n], np.float32(2.5) * x[:n] + before[:n])
    np.testing.assert_array_equal(y[n:], before[n:])


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("dtype", [f64, f16, bf16, i64, i32, i16, i8, u8])
def test_saxpy_of_every_dtype(dtype, features):
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


def casts(source):
    """one output a dtype: out[i] = dtype(x[i])"""
    b = Builder("casts")
    x = b.array("x", source, "n")
    outs = [b.array(f"as_{dtype}", dtype, "n", mutable=True) for dtype in ALL]
    i = b.id("thread")
    value = b.read(x, i)
    for dtype, out in zip(ALL, outs, strict=True):
        b.write(out, b.cast(value, dtype), i)
    return b.program(**lanes_of("n"))


@pytest.mark.parametrize("source", ALL)
def test_casts_to_every_dtype(source):
    values = numbers(source, 77)
    outs = [np.zeros(77, dtype.numpy) for dtype in ALL]
    run(casts(source), values, *outs)
    for out in outs:
        np.testing.assert_array_equal(out, values.astype(out.dtype))


@pytest.mark.parametrize("dtype", [f64, f32, f16, bf16])
def test_floats_round_once_an_operation(dtype):
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
    return b.program(**lanes_of("n"))


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("n", [1, 2, 33, 64, 1000])
def test_stencil(n, features):
    x = np.random.default_rng(n).random(n, np.float32)
    y = np.full(n, 9, np.float32)
    run(stencil(), x, y, features=features)
    padded = np.concatenate([[0], x, [0]]).astype(np.float32)
    np.testing.assert_array_equal(y, padded[:-2] + padded[2:])


def permute(dtype):
    """out[index[i]] = x[index[n - 1 - i]]"""
    b = Builder("permute")
    x, index, out = b.array("x", dtype, "n"), b.array("index", i64, "n"), b.array("out", dtype, "n", mutable=True)
    i = b.id("thread")
    back = b.value("sub", b.value("sub", b.dim("n"), b.const(1)), i)
    b.write(out, b.read(x, b.read(index, back)), b.read(index, i))
    return b.program(**lanes_of("n"))


@pytest.mark.parametrize("features", [None, SMALL, LARGE])
@pytest.mark.parametrize("dtype", [f64, f32, bf16, i8, boolean])
def test_gathers_and_scatters(dtype, features):
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
    return b.program(**lanes_of("r", (8, 16)))


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
def test_copies_fill_with_zeros_outside_the_array(row, column):
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
    return b.program(**lanes_of(64, (64,)))


def test_lanes_may_choose_between_shared_buffers():
    out = np.zeros(64, np.float32)
    run(choose_buffer(), out)
    np.testing.assert_array_equal(out, np.tile([1, 2], 32))


# -- groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [128, 96, 40, 20])
def test_group_sum(lanes):
    x = np.random.default_rng(0).random(5003, np.float32)
    out = np.zeros(3, np.float32)
    run(programs.group_sum(lanes), x, out)
    rows = np.concatenate([x, np.zeros(-x.size % lanes, np.float32)]).reshape(-1, lanes)
    total = np.zeros(lanes, np.float32)
    for row in rows:
        total += row
    np.testing.assert_array_equal(out, np.full(3, tree_sum(total, 0)))


def test_warp_reduction():
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros(32, np.float32)
    run(programs.warp_reduce(), x, out)
    np.testing.assert_array_equal(out, np.concatenate([x, np.zeros(24, np.float32)]).reshape(32, 32).sum(axis=1))


def exchange(mode, width, constant, dtype=f32):
    b = Builder("exchange")
    x, amount = b.array("x", dtype, "n"), b.array("amount", i64, "n")
    out = b.array("out", dtype, "n", mutable=True)
    i = b.id("thread")
    by = b.const(constant) if constant is not None else b.read(amount, i)
    b.write(out, b.shuffle(b.read(x, i), by, mode, width), i)
    return b.program(**lanes_of("n", (64,)))


@pytest.mark.parametrize("mode", ["down", "up", "xor", "idx"])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("constant", [None, 3])
def test_shuffles(mode, width, constant):
    n = 64 + 40  # the lanes of the last group past n read 0
    x = np.random.default_rng(1).random(n, np.float32)
    amount = np.random.default_rng(2).integers(-4, 36, n) if constant is None else np.full(n, constant)
    out = np.zeros(n, np.float32)
    run(exchange(mode, width, constant), x, amount, out)
    padded, by = (np.concatenate([a, np.zeros(128 - n, a.dtype)]) for a in (x, amount))
    if constant is not None:
        by[:] = constant
    lane = np.arange(128)
    place = lane % width
    wanted = {"down": place + by, "up": place - by, "xor": place ^ by, "idx": by}[mode]
    source = np.where((wanted >= 0) & (wanted < width), lane - place + wanted, lane)
    np.testing.assert_array_equal(out, padded[source][:n])


@pytest.mark.parametrize("dtype", [f64, bf16, i8, boolean])
def test_shuffles_of_other_dtypes(dtype):
    x = numbers(dtype, 64, 3)
    amount, out = np.full(64, 1), np.zeros(64, dtype.numpy)
    for constant in (None, 1):
        run(exchange("xor", 32, constant, dtype), x, amount, out)
        np.testing.assert_array_equal(out, x.reshape(-1, 2)[:, ::-1].ravel())


def cooperative():
    """g = tile.cooperative_group(64); g.sync(); X[g.thread_rank()] += 1"""
    b = Builder("coop_example")
    x = b.array("X", f32, "n", mutable=True)
    rank = b.value("mod", b.id("lane"), b.const(64))
    b.op("group_sync", size=64)
    b.write(x, b.value("add", b.read(x, rank), b.const(1.0, f32)), rank)
    return b.program(**lanes_of("n", (64,)))


def test_cooperative_group():
    x = np.zeros(100, np.float32)
    run(cooperative(), x, grid=(3,))
    np.testing.assert_array_equal(x, np.where(np.arange(100) < 64, 3, 0))


def waves():
    """for t in range(lane % 5): s[lane] += t; tbarrier(); v += s[(lane + 1) % 70]; tbarrier()"""
    b = Builder("waves")
    out = b.array("out", i64, "n", mutable=True)
    s = b.alloc(i64, 70, name="s")
    lane = b.id("lane")
    zero = b.const(0)
    b.write(s, zero, lane)
    b.barrier()
    upper = b.value("mod", lane, b.const(5))
    with b.loop(zero, upper, b.const(1), [zero], names=("t", "v")) as loop:
        b.write(s, b.value("add", b.read(s, lane), loop.index), lane)
        b.barrier()
        other = b.value("mod", b.value("add", lane, b.const(1)), b.const(70))
        seen = b.read(s, other)
        b.barrier()
        loop.yields = (b.value("add", loop.carried[0], seen),)
    b.write(out, loop.results[0], lane)
    return b.program(**lanes_of("n", (70,)))


def test_a_barrier_in_a_loop_of_varying_length_waits_for_those_who_are_there():
    out = np.zeros(70, np.int64)
    run(waves(), out, grid=(1,))
    s, v = np.zeros(70, np.int64), np.zeros(70, np.int64)
    lane = np.arange(70)
    for t in range(4):
        active = t < lane % 5
        s[active] += t
        v[active] += s[(lane + 1) % 70][active]
    np.testing.assert_array_equal(out, v)


def counter():
    """for k in range(c): out[g] = out[g] + k - all uniform, in a kernel with lanes"""
    b = Builder("counter")
    out, lanes = b.array("out", i64, "g", mutable=True), b.array("lanes", i64, "n", mutable=True)
    c = b.scalar("c", i64)
    group = b.id("group")
    with b.loop(b.const(0), c, b.const(1), names=("k",)) as loop:
        b.write(out, b.value("add", b.read(out, group), loop.index), group)
    b.write(lanes, b.read(out, group), b.id("thread"))
    return b.program(**lanes_of("n", (64,)))


@pytest.mark.parametrize("c", [0, 1, 1023, 1024, 1025, 5000])
def test_uniform_statements_run_once_a_group(c):
    out, lanes = np.zeros(2, np.int64), np.zeros(100, np.int64)
    run(counter(), out, lanes, c)
    np.testing.assert_array_equal(out, c * (c - 1) // 2)
    np.testing.assert_array_equal(lanes, c * (c - 1) // 2)


def group_numbers():
    """out[g] = g * grid_groups - without lanes, and without saying how large a group is"""
    b = Builder("group_numbers")
    out = b.array("out", i64, "n", mutable=True)
    group = b.id("group")
    b.write(out, b.value("mul", group, b.id("grid_groups")), group)
    return b.program(domain=Domain("groups", ("n",)))


def test_groups_without_lanes():
    out = np.zeros(50, np.int64)
    run(group_numbers(), out)
    np.testing.assert_array_equal(out, np.arange(50) * 50)


def once_without_groups():
    """first[0] = first[0] + 1; y[i] = 2"""
    b = Builder("once")
    first, y = b.array("first", i64, 1, mutable=True), b.array("y", i64, "n", mutable=True)
    zero = b.const(0)
    b.write(first, b.value("add", b.read(first, zero), b.const(1)), zero)
    b.write(y, b.const(2), b.id("thread"))
    return b.program(**lanes_of("n"))


def test_uniform_statements_run_once_a_launch_without_groups():
    first, y = np.zeros(1, np.int64), np.zeros(40000, np.int64)
    run(once_without_groups(), first, y)
    assert first[0] == 1
    assert (y == 2).all()


# -- control flow ----------------------------------------------------------------------------------------------


def collatz():
    """while v != 1: v = v // 2 if even else 3 v + 1; steps += 1"""
    b = Builder("collatz")
    x, out = b.array("x", i64, "n"), b.array("out", i64, "n", mutable=True)
    i = b.id("thread")
    kinds = Scalar(i64)
    before, after = [Value(kinds), Value(kinds)], [Value(kinds), Value(kinds)]
    start = [b.read(x, i), b.const(0)]
    b.blocks.append([])
    b.op("yield", (b.compare("gt", before[0], b.const(1)), *before))
    first = Block(tuple(before), tuple(b.blocks.pop()))
    b.blocks.append([])
    v, steps = after
    odd = b.compare("eq", b.value("mod", v, b.const(2)), b.const(1))
    up = b.value("add", b.value("mul", v, b.const(3)), b.const(1))
    following = b.select(odd, up, b.value("floordiv", v, b.const(2)))
    b.op("yield", (following, b.value("add", steps, b.const(1))))
    second = Block(tuple(after), tuple(b.blocks.pop()))
    results = Value(kinds), Value(kinds)
    b.blocks[-1].append(Op("while", tuple(start), results, {}, (first, second), b.span()))
    b.write(out, results[1], i)
    return b.program(**lanes_of("n"))


def test_lanes_leave_a_while_loop_one_by_one():
    x = np.arange(1, 201)
    out = np.zeros(200, np.int64)
    run(collatz(), x, out)

    def steps(v):
        count = 0
        while v > 1:
            v, count = (3 * v + 1 if v % 2 else v // 2), count + 1
        return count

    np.testing.assert_array_equal(out, [steps(int(v)) for v in x])


def rows_of_triangle():
    """for j in range(i % 40): total += x[j] - the index is the same in all lanes that are still there"""
    b = Builder("triangle")
    x, out = b.array("x", f32, "m"), b.array("out", f32, "n", mutable=True)
    i = b.id("thread")
    upper = b.value("mod", i, b.const(40))
    with b.loop(b.const(0), upper, b.const(1), [b.const(0.0, f32)], names=("j",)) as loop:
        loop.yields = (b.value("add", loop.carried[0], b.read(x, loop.index)),)
    b.write(out, loop.results[0], i)
    return b.program(**lanes_of("n"))


def test_ragged_loops():
    x = np.arange(30, dtype=np.float32)  # shorter than the longest row: the rest reads 0
    out = np.zeros(333, np.float32)
    run(rows_of_triangle(), x, out)
    sums = np.concatenate([[0], np.cumsum(x), np.full(20, x.sum())])
    np.testing.assert_array_equal(out, sums[np.arange(333) % 40])


def test_loops_that_count_down():
    out = np.zeros(2500, np.int64)
    run(programs.countdown(), out)
    np.testing.assert_array_equal(out, np.arange(2500)[::-1])


def forever():
    """while v > 0: x[i] = v"""
    b = Builder("forever")
    x = b.array("x", i64, "n", mutable=True)
    i = b.id("thread")
    before, after, result = (Value(Scalar(i64)) for _ in range(3))
    start = b.const(1)
    b.blocks.append([])
    b.op("yield", (b.compare("gt", before, b.const(0)), before))
    first = Block((before,), tuple(b.blocks.pop()))
    b.blocks.append([])
    b.write(x, after, i)
    b.op("yield", (after,))
    second = Block((after,), tuple(b.blocks.pop()))
    b.blocks[-1].append(Op("while", (start,), (result,), {}, (first, second), b.span()))
    return b.program(**lanes_of("n"))


def long_loop():
    """for k in range(n): for j in range(n): x[0] = x[0] + k"""
    b = Builder("long_loop")
    x, n = b.array("x", i64, "m", mutable=True), b.scalar("n", i64)
    zero, one = b.const(0), b.const(1)
    with b.loop(zero, n, one) as outer, b.loop(zero, n, one):
        b.write(x, b.value("add", b.read(x, zero), outer.index), zero)
    return b.program()


@pytest.mark.parametrize("program", [forever, long_loop])
def test_a_cancelled_launch_ends(program):
    artifact = compiled(program())
    x = np.zeros(64, np.int64)
    cancel = ctypes.c_int32(0)
    values = {"pointer": x.ctypes.data, "symbol": 64, "lanes": 64, "scalar": 1 << 40}
    slots = np.array([values[slot.kind] for slot in artifact.slots], np.int64).tobytes()
    timer = threading.Timer(0.05, lambda: setattr(cancel, "value", 1))
    timer.start()
    code = load(artifact).entry(slots, 0, 1, 0, ctypes.addressof(cancel))
    timer.join()
    assert code == 1
    assert load(artifact).entry(slots, 0, 0, 0, ctypes.addressof(ctypes.c_int32(0))) == 0


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
