"""Groups and control flow on the CPU: sums, shuffles, barriers, loops that lanes leave apart, cancellation."""

import ctypes
import threading
from collections.abc import Callable

import numpy as np
import pytest

from support import programs
from support.builder import Builder
from support.cpu import compiled, run
from tessera.core.base.dtypes import DType, bf16, boolean, f32, f64, i8, i64
from tessera.core.base.reductions import tree_sum
from tessera.core.program.program import Block, Domain, Op, Program, Value
from tessera.core.program.types import Scalar
from tessera.runtime.launch.object_code import load


def numbers(dtype: DType, n: int, seed: int = 0):
    r = np.random.default_rng(seed)
    return (r.integers(0, 2, n) if dtype.kind == "bool" else r.integers(0, 50, n)).astype(dtype.numpy)


def lanes_of(n: int | str) -> Domain:
    return Domain("lanes", (n,))


# -- groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [128, 96, 40, 20])
def test_group_sum(lanes: int):
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


def exchange(mode: str, width: int, constant: int | None, dtype: DType = f32):
    b = Builder("exchange")
    x, amount = b.array("x", dtype, "n"), b.array("amount", i64, "n")
    out = b.array("out", dtype, "n", mutable=True)
    i = b.id("thread")
    by = b.const(constant) if constant is not None else b.read(amount, i)
    b.write(out, b.shuffle(b.read(x, i), by, mode, width), i)
    return b.program(domain=lanes_of("n"), group=(64,))


@pytest.mark.parametrize("mode", ["down", "up", "xor", "idx"])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("constant", [None, 3])
def test_shuffles(mode: str, width: int, constant: int | None):
    n = 64 + 40  # the lanes of the last group past n read 0
    x = np.random.default_rng(1).random(n, np.float32)
    amount = np.random.default_rng(2).integers(-4, 36, n) if constant is None else np.full(n, constant)
    out = np.zeros(n, np.float32)
    run(exchange(mode, width, constant), x, amount, out)
    padded, by = np.concatenate([x, np.zeros(128 - n, x.dtype)]), np.concatenate([amount, np.zeros(128 - n, np.int64)])
    if constant is not None:
        by[:] = constant
    lane = np.arange(128)
    place = lane % width
    wanted = {"down": place + by, "up": place - by, "xor": place ^ by, "idx": by}[mode]
    source = np.where((wanted >= 0) & (wanted < width), lane - place + wanted, lane)
    np.testing.assert_array_equal(out, padded[source][:n])


@pytest.mark.parametrize("dtype", [f64, bf16, i8, boolean])
def test_shuffles_of_other_dtypes(dtype: DType):
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
    return b.program(domain=lanes_of("n"), group=(64,))


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
    return b.program(domain=lanes_of("n"), group=(70,))


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
    return b.program(domain=lanes_of("n"), group=(64,))


@pytest.mark.parametrize("c", [0, 1, 1023, 1024, 1025, 5000])
def test_uniform_statements_run_once_a_group(c: int):
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
    return b.program(domain=lanes_of("n"))


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
    return b.program(domain=lanes_of("n"))


def test_lanes_leave_a_while_loop_one_by_one():
    x = np.arange(1, 201)
    out = np.zeros(200, np.int64)
    run(collatz(), x, out)

    def steps(v: int) -> int:
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
    return b.program(domain=lanes_of("n"))


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
    return b.program(domain=lanes_of("n"))


def long_loop():
    """for k in range(n): for j in range(n): x[0] = x[0] + k"""
    b = Builder("long_loop")
    x, n = b.array("x", i64, "m", mutable=True), b.scalar("n", i64)
    zero, one = b.const(0), b.const(1)
    with b.loop(zero, n, one) as outer, b.loop(zero, n, one):
        b.write(x, b.value("add", b.read(x, zero), outer.index), zero)
    return b.program()


@pytest.mark.parametrize("program", [forever, long_loop])
def test_a_cancelled_launch_ends(program: Callable[[], Program]):
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
