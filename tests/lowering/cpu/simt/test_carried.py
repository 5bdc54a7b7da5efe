"""Tiles carried by loops and handed out of branches: compiled code and the interpreter agree on every bit."""

import numpy as np
import pytest

from support.interpret_programs import Values, Writer
from support.tile_kernels import Kernel, check, numbers, outputs
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Value
from tessera.core.program.types import Tile


class Carried(Kernel, Writer):
    """A kernel with loops and branches over tiles."""


def test_a_sum_in_place():
    k = Carried("k")
    x, start = k.take("x", 3, 40), k.take("start", 3, 40)
    with k.loop(k.const(0), k.const(5), k.const(1), [start]) as loop:
        loop.yields = (k.value("add", loop.carried[0], x),)
    k.put("out", loop.results[0])
    program = k.program()
    check(program, numbers((3, 40)), numbers((3, 40), seed=1), *outputs(program))


def test_tiles_that_change_places():
    k = Carried("k")
    tiles = [k.take(name, 20) for name in "abc"]
    with k.loop(k.const(0), k.const(4), k.const(1), tiles) as loop:
        a, b, c = loop.carried
        loop.yields = (b, c, a)
    for name, tile in zip("def", loop.results, strict=True):
        k.put(name, tile)
    program = k.program()
    check(program, *(numbers((20,), seed=n) for n in range(3)), *outputs(program))


def test_fibonacci_reads_what_it_replaces():
    k = Carried("k")
    with k.loop(k.const(0), k.const(6), k.const(1), [k.take("a", 33), k.take("b", 33)]) as loop:
        a, b = loop.carried
        loop.yields = (b, k.value("add", a, b))
    k.put("c", loop.results[0])
    k.put("d", loop.results[1])
    program = k.program()
    check(program, numbers((33,)), numbers((33,), seed=1), *outputs(program))


def test_the_old_value_is_read_after_the_new_one_is_made():
    k = Carried("k")
    start = k.take("start", 24)
    with k.loop(k.const(0), k.const(3), k.const(1), [start, start]) as loop:
        total, trace = loop.carried
        after = k.value("add", total, total)
        loop.yields = (after, k.value("sub", k.value("mul", after, trace), total))
    k.put("total", loop.results[0])
    k.put("trace", loop.results[1])
    program = k.program()
    check(program, numbers((24,)), *outputs(program))


def test_a_transposed_update_is_not_in_place():
    k = Carried("k")
    with k.loop(k.const(0), k.const(3), k.const(1), [k.take("x", 24, 24)]) as loop:
        (x,) = loop.carried
        loop.yields = (k.value("add", x, k.transpose(x, 1, 0)),)
    k.put("out", loop.results[0])
    program = k.program()
    check(program, numbers((24, 24)), *outputs(program))


def test_a_broadcast_of_the_carried_tile_itself():
    k = Carried("k")
    with k.loop(k.const(0), k.const(3), k.const(1), [k.take("x", 4, 20)]) as loop:
        (x,) = loop.carried
        most = k.broadcast(k.reshape(k.reduce(x, "max", 1), 4, 1), 4, 20)
        loop.yields = (k.value("sub", x, most),)
    k.put("out", loop.results[0])
    program = k.program()
    check(program, numbers((4, 20)), *outputs(program))


def test_reshaped_and_back_again():
    k = Carried("k")
    with k.loop(k.const(0), k.const(3), k.const(1), [k.take("x", 4, 20)]) as loop:
        (x,) = loop.carried
        flat = k.reshape(x, 80)
        loop.yields = (k.reshape(k.value("add", flat, flat), 4, 20),)
    k.put("out", loop.results[0])
    program = k.program()
    check(program, numbers((4, 20)), *outputs(program))


def test_loops_in_loops_hand_tiles_through():
    k = Carried("k")
    x = k.take("x", 50)
    with k.loop(k.const(0), k.const(3), k.const(1), [x]) as outer:
        with k.loop(k.const(0), k.const(2), k.const(1), [outer.carried[0]]) as inner:
            inner.yields = (k.value("add", inner.carried[0], x),)
        outer.yields = (k.value("mul", inner.results[0], outer.carried[0]),)
    k.put("out", outer.results[0])
    program = k.program()
    check(program, numbers((50,)), *outputs(program))


def test_a_loop_that_never_runs():
    k = Carried("k")
    with k.loop(k.const(0), k.const(0), k.const(1), [k.take("x", 10)]) as loop:
        loop.yields = (k.value("add", loop.carried[0], loop.carried[0]),)
    k.put("out", loop.results[0])
    program = k.program()
    check(program, numbers((10,)), *outputs(program))


@pytest.mark.parametrize("n", [0, 5])
def test_branches_hand_tiles_out(n: int):
    k = Carried("k")
    x, y = k.take("x", 3, 17), k.take("y", 3, 17)
    few = k.compare("lt", k.const(n), k.const(3))
    one, two = k.branch(few, lambda: (k.value("add", x, y), y), lambda: (x, k.value("mul", x, y)))
    k.put("one", one)
    k.put("two", two)
    program = k.program()
    check(program, numbers((3, 17)), numbers((3, 17), seed=1), *outputs(program))


def test_a_while_loop_halves_a_tile():
    k = Carried("k")

    def large(carried: Values) -> Value:
        _, count = carried
        return k.compare("lt", count, k.const(4))

    def halve(carried: Values) -> Values:
        tile, count = carried
        return (k.value("mul", tile, k.full(k.const(0.5, f32), 20)), k.value("add", count, k.const(1)))

    tile, count = k.repeat((k.take("x", 20), k.const(0)), large, halve)
    k.put("out", tile)
    k.put("count", count)
    program = k.program()
    out = check(program, numbers((20,)), *outputs(program))
    assert np.array_equal(out[1], numbers((20,)) / np.float32(16))
    assert out[2].tolist() == [4]


def test_online_softmax_times_values():
    """The inner loop of attention: a running maximum, a running sum and an accumulator, all carried."""
    rows, keys, width, depth = 12, 16, 3, 20
    k = Carried("k")
    q, ks, vs = k.take("q", rows, depth), k.array("k", f32, "s", depth), k.array("v", f32, "s", depth)
    zero = k.const(0)
    most = k.full(k.const(-1e30, f32), rows)
    total = k.full(k.const(0.0, f32), rows)
    acc = k.full(k.const(0.0, f32), rows, depth)

    def spread(tile: Value, columns: int) -> Value:
        return k.broadcast(k.reshape(tile, rows, 1), rows, columns)

    with k.loop(zero, k.dim("s"), k.const(keys), [most, total, acc]) as loop:
        m, s, a = loop.carried
        scores = k.dot(q, k.transpose(k.load(ks, [loop.index, zero], [keys, depth]), 1, 0))
        higher = k.value("max", m, k.reduce(scores, "max", 1))
        gap = k.value("sub", scores, spread(higher, keys))
        p = k.value("div", k.full(k.const(1.0, f32), rows, keys), k.value("add", k.value("mul", gap, gap), k.full(
            k.const(1.0, f32), rows, keys)))  # fmt: skip
        scale = k.value("sub", m, higher)
        scale = k.value("div", k.full(k.const(1.0, f32), rows), k.value("add", k.value("mul", scale, scale), k.full(
            k.const(1.0, f32), rows)))  # fmt: skip
        s = k.value("add", k.value("mul", s, scale), k.reduce(p, "sum", 1))
        scaled = k.value("mul", a, spread(scale, depth))
        loop.yields = (higher, s, k.dot(p, k.load(vs, [loop.index, zero], [keys, depth]), scaled))
    most, total, acc = loop.results
    k.put("m", most)
    k.put("l", total)
    k.put("o", k.value("div", acc, spread(total, depth)))
    program = k.program()
    keys_in = numbers((keys * width, depth), seed=1)
    check(program, numbers((rows, depth)), keys_in, numbers(keys_in.shape, seed=2), *outputs(program))


def test_an_integer_tile_counts():
    k = Carried("k")
    start = k.full(k.const(0, i64), 9)
    with k.loop(k.const(0), k.const(4), k.const(1), [start]) as loop:
        loop.yields = (k.value("add", loop.carried[0], k.arange(loop.index, 9)),)
    assert loop.results[0].type == Tile(i64, (9,))
    k.put("out", loop.results[0])
    program = k.program()
    assert check(program, *outputs(program))[0].tolist() == [6 + 4 * i for i in range(9)]
