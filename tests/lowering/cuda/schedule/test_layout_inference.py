"""Layouts as they are chosen: whole lines are read, no lane repeats another's work, sums stay where they are."""

import pytest

from lowering.cuda.cases import Maker, in_registers, is_wide, numbers, plan_of, poison
from support import programs
from tessera.core.base.dtypes import DType, bf16, f32, f64, u8
from tessera.core.layouts import Layout, coordinates
from tessera.core.program.program import Attribute, Program


def copy(dtype: DType, rows: int, columns: int, *, wide: bool = True, start: int = 0) -> Program:
    b = Maker("copy")
    x = b.matrix("x", dtype, "m", "n", wide=wide)
    out = b.matrix("out", dtype, "m", "n", wide=wide, mutable=True)
    where = [b.const(0), b.const(start)]
    b.store(out, b.load(x, where, [rows, columns]), where, [rows, columns])
    return b.program()


def sums(dtype: DType, shape: tuple[int, ...], axis: int, *, wide: bool = True, **options: Attribute) -> Program:
    b = Maker("sums")
    x = b.matrix("x", dtype, *shape, wide=wide and is_wide(dtype, shape))
    left = [*shape[:axis], *shape[axis + 1 :]]
    out = b.matrix("out", f32, *left, mutable=True, wide=is_wide(f32, tuple(left)))
    tile = b.cast(b.load(x, [b.const(0)] * len(shape), shape), f32)
    b.store(out, b.reduce(tile, "sum", axis), [b.const(0)] * len(left), left)
    return b.program(domain=None, group=None, **options)


def layout_of(program: Program, name: str = "tessera.load") -> Layout:
    plan, found = plan_of(program)
    assert plan is not None
    return found[name][0]


def no_work_twice(layout: Layout) -> bool:
    return all((*layout.lanes, *layout.warps))


@pytest.mark.parametrize(
    ("dtype", "vector"), [(f32, 4), (bf16, 8), (f64, 2), (u8, 16)], ids=str
)  # fmt: skip
def test_a_load_reads_whole_lines(dtype: DType, vector: int):
    layout = layout_of(copy(dtype, 16, 256))
    assert [layout.element(0, lane) for lane in range(3)] == [0, vector, 2 * vector]
    assert [layout.element(r) for r in range(vector)] == list(range(vector))


@pytest.mark.parametrize(("wide", "start", "vector"), [(True, 0, 4), (True, 2, 2), (True, 1, 1), (False, 0, 1)])
def test_vectors_are_as_wide_as_alignment_allows(wide: bool, start: int, vector: int):
    """Narrower ones would leave gaps between the lanes of one access."""
    layout = layout_of(copy(f32, 16, 256, wide=wide, start=start))
    assert layout.element(0, 1) == vector


@pytest.mark.parametrize(
    ("shape", "axis", "warps"),
    [((1, 8192), 1, 4), ((1, 4096), 1, 2), ((1, 1024), 1, 1), ((4, 1024), 1, 4), ((1, 32768), 1, 8), ((64, 128), 0, 8)],
)
def test_reductions_have_as_many_warps_as_there_is_work_for(shape: tuple[int, ...], axis: int, warps: int):
    plan, found = plan_of(sums(f32, shape, axis))
    assert plan is not None
    assert 1 << plan.bits == warps
    assert no_work_twice(found["tessera.load"][0])


@pytest.mark.parametrize("columns", [4096, 8192, 5000, 20000])
@pytest.mark.parametrize("wide", [True, False])
def test_a_chain_is_in_one_lane(columns: int, wide: bool):
    """Element c of a block of 4096, and those 128, 256, ... further on."""
    layout = layout_of(sums(f32, (1, columns), 1, wide=wide))
    for bit in range(7, 12):
        assert 1 << bit in layout.registers
    assert layout.covers()


def test_a_column_reduction_reads_whole_lines():
    layout = layout_of(sums(f32, (64, 128), 0))
    assert [coordinates(layout.element(0, lane), (64, 128)) for lane in (0, 1, 31)] == [(0, 0), (0, 4), (0, 124)]
    assert no_work_twice(layout)


def test_more_warps_are_given_work_where_the_user_wants_them():
    plan, found = plan_of(sums(f32, (1, 8192), 1, num_warps=8))
    assert plan is not None
    assert plan.bits == 3
    assert no_work_twice(found["tessera.load"][0])


@pytest.mark.parametrize(("vector", "elements"), [(1, 1), (2, 2), (4, 4), (16, 8)])
def test_a_lane_takes_no_more_neighbours_than_it_may(vector: int, elements: int):
    """Of bf16, at most the 8 that 16 bytes hold."""
    b = Maker("copy")
    x, out = b.matrix("x", bf16, 16, 256, wide=True), b.matrix("out", bf16, 16, 256, wide=True, mutable=True)
    zero = [b.const(0), b.const(0)]
    b.store(out, b.load(x, zero, [16, 256]), zero, [16, 256])
    program = b.program(vector_width=vector)
    assert layout_of(program).element(0, 1) == elements
    in_registers(program, [numbers(bf16, 16, 256), poison(bf16, 16, 256)])


@pytest.mark.parametrize(("vector", "warps"), [(1, 8), (2, 4), (4, 2)])
@pytest.mark.parametrize(("dtype", "columns"), [(f32, 8192), (bf16, 7000)], ids=str)
def test_neighbours_decide_how_many_warps_reduce_a_row_and_no_bits(vector: int, warps: int, dtype: DType, columns: int):
    program = sums(dtype, (1, columns), 1, vector_width=vector)
    plan, _ = plan_of(program)
    assert plan is not None
    assert 1 << plan.bits == warps
    in_registers(program, [numbers(dtype, 1, columns), poison(f32, 1)])


def test_a_transposed_load_is_read_in_its_own_lines():
    b = Maker("transposed")
    x, out = b.matrix("x", f32, 64, 64, wide=True), b.matrix("out", f32, 64, 64, wide=True, mutable=True)
    zero = [b.const(0), b.const(0)]
    b.store(out, b.transpose(b.load(x, zero, [64, 64]), 1, 0), zero, [64, 64])
    _, found = plan_of(b.program())
    for name in ("tessera.load", "tessera.transpose"):
        assert [found[name][0].element(0, lane) for lane in range(2)] == [0, 4]


def test_what_is_computed_together_lies_together():
    b = Maker("together")
    x, out = b.matrix("x", f32, 8, 512, wide=True), b.matrix("out", f32, 8, 512, wide=True, mutable=True)
    zero = [b.const(0), b.const(0)]
    tile = b.load(x, zero, [8, 512])
    total = b.broadcast(b.reshape(b.reduce(tile, "sum", 1), 8, 1), 8, 512)
    b.store(out, b.value("sub", tile, total), zero, [8, 512])
    _, found = plan_of(b.program())
    assert found["tessera.load"] == found["tessera.broadcast"] == found["arith.subf"]
    assert found["tessera.reshape"][0] == found["tessera.load"][0].sliced([1])


@pytest.mark.parametrize("columns", [65536, 100000])
def test_tiles_that_are_too_large(columns: int):
    assert plan_of(sums(f32, (1, columns), 1))[0] is None


def test_a_sum_of_everything_needs_the_order_of_the_elements():
    """Padding to powers of two would move those of the second row."""
    for columns, fits in ((64, True), (70, False)):
        b = Maker("everything")
        x, out = b.matrix("x", f32, 8, columns), b.matrix("out", f32, 1, mutable=True)
        b.write(out, b.reduce(b.load(x, [b.const(0)] * 2, [8, columns]), "sum"), b.const(0))
        assert (plan_of(b.program())[0] is not None) == fits


def test_kernels_with_lanes_of_their_own_are_left_alone():
    assert plan_of(programs.saxpy())[0] is None
