"""tile-distribute-ranges: what it spreads, what it leaves alone, and that the values stay."""

from collections.abc import Callable
from typing import TypedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import programs
from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Program, Value
from tessera.core.tile.location import identities
from tessera.lowering.base.attributes import RANGES, from_attribute
from tessera.lowering.base.ir_walk import kernel
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.distribute_ranges import DistributeRanges
from tessera.lowering.tile.simplify import Simplify
from tessera.lowering.tile.to_tile import to_tile


def ranges(program: Program, *passes: Pass):
    function = kernel(lowered(program, *passes, DistributeRanges()))
    return from_attribute(function.attributes[RANGES]) if RANGES in function.attributes else None


def test_one_loop():
    text = shown(programs.tile_copy(), Simplify(), DistributeRanges())
    assert 'ranges [["n", 128]]' in text
    assert "scf.for" not in text
    assert "%block = tessera.load %x[%1:+128]" in text


def test_nested_loops_run_the_inner_one_fastest():
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 4, shape).astype(np.float32) for shape in ((10, 7), (7, 9)))
    c = np.zeros((10, 9), np.float32)
    module = lowered(programs.matmul(4, 4, 4), Simplify(), DistributeRanges())
    assert from_attribute(kernel(module).attributes[RANGES]) == (("M", 4), ("N", 4))
    run(module, {"M": 10, "N": 9, "K": 7}, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("simplify", [(), (Simplify(),)], ids=["as built", "simplified"])
@pytest.mark.parametrize("make", [programs.tile_copy, programs.matmul, programs.softmax_rows])
def test_needs_no_other_pass_before_it(make: Callable[[], Program], simplify: tuple[Simplify, ...]):
    assert ranges(make(), *simplify)


def test_a_range_of_zero_has_no_groups():
    x = np.zeros(0, np.float32)
    run(lowered(programs.tile_copy(), DistributeRanges()), {"n": 0}, x, x)


Around = Callable[[Builder, Value, Value], object]
Body = Callable[[Builder, Value, Value, Value], None]


def tiled(
    body: Body, upper: str | int = "n", lower: int = 0, step: int = 4, kind: str = "tile",
    before: Around | None = None, after: Around | None = None,
) -> Program:  # fmt: skip
    """A tile loop over `x` and `y` (both f32[n]) around what `body(builder, x, y, index)` appends."""
    b = Builder("tiled")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    if before:
        before(b, x, y)
    bound = b.dim(upper) if isinstance(upper, str) else b.const(upper)
    with b.loop(b.const(lower), bound, b.const(step), kind=kind, names=("t",)) as loop:
        body(b, x, y, loop.index)
    if after:
        after(b, x, y)
    return b.program()


def copies(b: Builder, x: Value, y: Value, t: Value):
    b.store(y, b.load(x, [t], [4]), [t], [4])


def scalars(b: Builder, x: Value, y: Value, t: Value):
    with b.loop(b.const(0), b.const(4), b.const(1)) as inner:
        at = b.value("add", t, inner.index)
        b.write(y, b.read(x, at), at)


def windows_in_order(b: Builder, x: Value, y: Value, t: Value):
    for offset in (0, 2):
        at = b.value("add", t, b.const(offset))
        b.store(y, b.load(y, [at], [2]), [at], [2])


def scaled(b: Builder, x: Value, y: Value, t: Value):
    at = b.value("mul", t, b.const(8))
    b.store(y, b.load(x, [at], [8]), [at], [8])


def backwards(b: Builder, x: Value, y: Value, t: Value):
    b.store(y, b.load(x, [t], [4]), [b.value("sub", b.dim("n"), t)], [4])


@pytest.mark.parametrize("body", [copies, scalars, windows_in_order, scaled, backwards])
@pytest.mark.parametrize("upper", ["n", 32])
def test_independent_iterations(body: Body, upper: str | int):
    assert ranges(tiled(body, upper)) == ((upper, 4),)


def test_a_first_block_left_out():
    program = tiled(copies, lower=4)
    assert ranges(program) == ((("sub", "n", 4), 4),)
    x, y = np.arange(18, dtype=np.float32), np.zeros(18, np.float32)
    run(lowered(program, DistributeRanges()), {"n": 18}, x, y)
    np.testing.assert_array_equal(y, np.where(x < 4, 0, x))


def test_no_groups_of_a_range_that_ends_before_it_begins():
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    run(lowered(tiled(copies, lower=4), DistributeRanges()), {"n": 3}, x, y)
    assert not y.any()


def test_bounds_that_are_computed():
    b = Builder("computed")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    last = b.value("floordiv", b.value("sub", b.dim("n"), b.const(6)), b.const(2))
    with b.loop(b.const(1), last, b.const(3), kind="tile", names=("t",)) as loop:
        copies(b, x, y, b.value("mul", loop.index, b.const(2)))
    assert ranges(b.program()) == ((("sub", ("floordiv", ("sub", "n", 6), 2), 1), 3),)
    for n in (2, 7, 31):
        x, expected = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        for t in range(1, (n - 6) // 2, 3):
            expected[2 * t : 2 * t + 4] = x[2 * t : 2 * t + 4]
        y = np.zeros(n, np.float32)
        run(lowered(b.program(), Simplify(), DistributeRanges()), {"n": n}, x, y)
        np.testing.assert_array_equal(y, expected)


def test_an_inner_range_from_the_outer_index():
    b = Builder("triangle")
    x, y = b.array("x", f32, "n", 8), b.array("y", f32, "n", 8, mutable=True)
    with b.loop(b.const(2), b.dim("n"), b.const(4), kind="tile", names=("m",)) as outer:
        end = b.value("add", outer.index, b.const(4))
        with b.loop(outer.index, end, b.const(1), kind="tile", names=("r",)) as inner:
            zero = b.const(0)
            b.store(y, b.load(x, [inner.index, zero], [1, 8]), [inner.index, zero], [1, 8])
    assert ranges(b.program()) == ((("sub", "n", 2), 4), (4, 1))
    x, y = np.arange(88, dtype=np.float32).reshape(11, 8), np.zeros((11, 8), np.float32)
    run(lowered(b.program(), DistributeRanges()), {"n": 11}, x, y)
    np.testing.assert_array_equal(y[2:], x[2:])
    assert not y[:2].any()


def test_what_stands_before_the_loop_is_computed_by_each_group():
    made: list[Value] = []

    def before(b: Builder, x: Value, y: Value):
        made.append(b.reduce(b.load(x, [b.const(0)], [2])))

    def body(b: Builder, x: Value, y: Value, t: Value):
        b.store(y, b.value("add", b.load(x, [t], [4]), b.full(made[0], 4)), [t], [4])

    program = tiled(body, before=before)
    assert ranges(program) == (("n", 4),)
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    run(lowered(program, DistributeRanges()), {"n": 10}, x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_what_reads_an_array_that_the_loop_writes_is_not_computed_again():
    made: list[Value] = []

    def before(b: Builder, x: Value, y: Value):
        made.append(b.load(y, [b.const(0)], [4]))

    def body(b: Builder, x: Value, y: Value, t: Value):
        b.store(y, made[0], [t], [4])

    assert ranges(tiled(body, before=before)) is None


def overlapping(b: Builder, x: Value, y: Value, t: Value):
    b.store(y, b.load(x, [t], [5]), [t], [5])


def reads_the_next_block(b: Builder, x: Value, y: Value, t: Value):
    b.store(y, b.load(y, [b.value("add", t, b.const(4))], [4]), [t], [4])


def one_place(b: Builder, x: Value, y: Value, t: Value):
    b.store(y, b.load(x, [t], [4]), [b.const(0)], [4])


def scattered(b: Builder, x: Value, y: Value, t: Value):
    b.write(y, b.read(x, t), b.value("floordiv", t, b.const(8)))


@pytest.mark.parametrize("body", [overlapping, reads_the_next_block, one_place, scattered])
def test_dependent_iterations_stay_in_order(body: Body):
    assert ranges(tiled(body)) is None


def reads(b: Builder, x: Value, y: Value):
    b.store(y, b.load(x, [b.const(0)], [4]), [b.const(0)], [4])


class Change(TypedDict, total=False):
    """What is unlike a loop that is spread."""

    kind: str
    before: Around
    after: Around


CHANGES: dict[str, Change] = {
    "a plain range": {"kind": "range"},
    "memory before": {"before": reads},
    "memory after": {"after": reads},
    "uses ids": {"before": lambda b, x, y: b.id("group")},
    "a barrier after": {"after": lambda b, x, y: b.barrier()},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_kernels_are_left_alone(change: Change):
    program = tiled(copies, **change)
    assert shown(program, DistributeRanges()) == shown(program)


def test_carried_values_keep_their_order():
    b = Builder("carried")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(4), [b.const(0.0, f32)], kind="tile", names=("t", "s")) as loop:
        block = b.load(x, [loop.index], [4])
        b.store(y, block, [loop.index], [4])
        loop.yields = (b.value("add", loop.carried[0], b.reduce(block)),)
    assert ranges(b.program()) is None


def through_shared(outside: bool, whole: bool):
    """Each iteration copies a block into shared memory, and reads it again."""
    b = Builder("through_shared")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    buffer = b.alloc(f32, 4, name="buffer") if outside else None
    with b.loop(b.const(0), b.dim("n"), b.const(4), kind="tile", names=("t",)) as loop:
        mine = buffer if buffer is not None else b.alloc(f32, 4, name="buffer")
        if whole:
            b.copy(mine, x, [loop.index], [4])
            b.barrier()
        b.store(y, b.load(mine, [b.const(0)], [4]), [loop.index], [4])
        if not whole:
            b.store(mine, b.load(x, [loop.index], [4]), [b.const(0)], [4])
    return b.program()


@pytest.mark.parametrize("outside", [True, False])
def test_shared_memory_filled_before_it_is_read(outside: bool):
    program = through_shared(outside, whole=True)
    assert ranges(program) == (("n", 4),)
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    run(lowered(program, DistributeRanges()), {"n": 10}, x, y)
    np.testing.assert_array_equal(y, x)


def test_shared_memory_that_carries_from_one_iteration_to_the_next():
    assert ranges(through_shared(outside=True, whole=False)) is None


def test_only_the_outer_loop_when_the_inner_one_is_not_independent():
    b = Builder("rows")
    x, y = b.array("x", f32, "n", "m"), b.array("y", f32, "n", 4, mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("n"), b.const(4), kind="tile", names=("t",)) as outer,
        b.loop(zero, b.dim("m"), b.const(4), kind="tile", names=("k",)) as inner,
    ):
        old = b.load(y, [outer.index, zero], [4, 4])
        new = b.load(x, [outer.index, inner.index], [4, 4])
        b.store(y, b.value("add", old, new), [outer.index, zero], [4, 4])
    assert ranges(b.program()) == (("n", 4),)
    x, y = np.arange(48, dtype=np.float32).reshape(6, 8), np.zeros((6, 4), np.float32)
    module = lowered(b.program(), DistributeRanges())
    run(module, {"n": 6, "m": 8}, x, y)
    np.testing.assert_array_equal(y, x[:, :4] + x[:, 4:])


def test_group_numbers_come_from_the_loop():
    program = programs.tile_copy()
    loop = next(n for n, op in enumerate(program.body.walk()) if op.opcode == "for")
    module = lowered(program, DistributeRanges())
    made = [op for op in kernel(module).regions[0].blocks[0].operations if op.operation.name == "tessera.id"]
    assert [identities(op.location) for op in made] == [(loop,)]


@st.composite
def accesses(draw: st.DrawFn) -> tuple[int, int, int, str]:
    """Where one access of `y` (f32[n]) lies: a factor of the index, an offset, an extent, whether it writes."""
    return draw(
        st.tuples(st.sampled_from([1, 1, 1, 2]), st.integers(-1, 3), st.integers(1, 3), st.sampled_from("rrww"))
    )


@settings(max_examples=40)
@given(st.lists(accesses(), min_size=1, max_size=3), st.integers(2, 6), st.integers(0, 20))
def test_spread_iterations_do_not_depend_on_their_order(
    chosen: list[tuple[int, int, int, str]], step: int, extent: int
):
    b = Builder("random")
    y = b.array("y", f32, "n", mutable=True)
    with b.loop(b.const(0), b.dim("n"), b.const(step), kind="tile", names=("t",)) as loop:
        total = b.const(1.0, f32)
        for factor, offset, length, kind in chosen:
            at = b.value("add", b.value("mul", loop.index, b.const(factor)), b.const(offset))
            if kind == "r":
                total = b.value("add", total, b.reduce(b.load(y, [at], [length])))
            else:
                b.store(y, b.full(total, length), [at], [length])
    before = np.arange(extent, dtype=np.float32)
    after = before.copy()
    run(lowered(b.program(), Simplify()), {"n": extent}, before)
    run(lowered(b.program(), Simplify(), DistributeRanges()), {"n": extent}, after)
    np.testing.assert_array_equal(after, before)


def test_same_module_as_before_when_nothing_fits():
    program = programs.saxpy()
    assert str(lowered(program, DistributeRanges())) == str(to_tile(program))
