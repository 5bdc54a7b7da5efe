"""Reductions of tiles in registers: any dtype, shape and axis, with the bits of the one association."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lowering.cuda.cases import DTYPES, Maker, in_registers, is_wide, numbers, poison
from lowering.cuda.hopper import attention, code, places
from support.interpret_programs import Values
from support.simulate import compile_ptx, ptx_of, same_bits, simulate
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32
from tessera.core.base.reductions import tree_sum
from tessera.core.program.program import Program, Value
from tessera.ops.tiles.reductions import reduce_pairs, reduce_row_blocks


def reduced(dtype: DType, kind: str, axis: int | None, shape: tuple[int, ...], start: int = 0) -> Program:
    """out = x[start:].kind(axis)"""
    b = Maker("reduced")
    x = b.matrix("x", dtype, *(e + start for e in shape), wide=is_wide(dtype, (shape[-1] + start,)))
    left = () if axis is None else (*shape[:axis], *shape[axis + 1 :])
    out = b.matrix("out", dtype, *(left or (1,)), mutable=True, wide=is_wide(dtype, left or (1,)))
    result = b.reduce(b.load(x, [b.const(start)] * len(shape), shape), kind, axis)
    if left:
        b.store(out, result, [b.const(0)] * len(left), left)
    else:
        b.write(out, result, b.const(0))
    return b.program()


def check(dtype: DType, kind: str, axis: int | None, shape: tuple[int, ...], start: int = 0) -> None:
    left = () if axis is None else (*shape[:axis], *shape[axis + 1 :])
    values = numbers(dtype, *(e + start for e in shape))
    in_registers(reduced(dtype, kind, axis, shape, start), [values, poison(dtype, *(left or (1,)))])


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(DTYPES), st.sampled_from(["sum", "max", "min"]),
    st.lists(st.integers(1, 70), min_size=1, max_size=3).filter(lambda s: math.prod(s) <= 6000), st.data(),
)  # fmt: skip
@example(f32, "sum", [64, 64], None)
def test_small_ones(dtype: DType, kind: str, shape: list[int], data: st.DataObject | None):
    if dtype == boolean and kind == "sum":
        return
    # A float sum of everything asks for the order of the elements, which padding keeps along the first axis only.
    ordered = kind != "sum" or not dtype.is_float or all(e & (e - 1) == 0 for e in [e for e in shape if e != 1][1:])
    axes = [*([None] if ordered else []), *range(len(shape))]
    for axis in axes if data is None else [data.draw(st.sampled_from(axes))]:
        check(dtype, kind, axis, tuple(shape), 0 if data is None else data.draw(st.sampled_from([0, 0, 1, 4])))


@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [
        (f32, (1, 8192), 1), (f32, (2, 4096), 1), (f32, (5000,), 0), (f32, (1, 8191), 1), (f32, (1, 12289), 1),
        (f32, (4096, 4), 0), (f32, (5000, 2), 0), (bf16, (1, 8192), 1), (f16, (300, 20), 0), (f64, (2, 5000), 1),
        (i32, (8192,), 0), (f32, (9000,), None), (f32, (3, 40, 50), 1), (f32, (130, 3, 10), 0), (f32, (70, 64), None), (i32, (70, 70), None),
    ],
    ids=str,
)  # fmt: skip
def test_long_ones(dtype: DType, shape: tuple[int, ...], axis: int | None):
    """More columns than a warp has lanes, and more blocks than one: what other warps hold comes by shared memory."""
    check(dtype, "sum", axis, shape)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_the_bits_do_not_depend_on_the_number_of_warps(warps: int):
    b = Maker("warps")
    x, out = b.matrix("x", f32, "m", 3000, wide=True), b.matrix("out", f32, "m", mutable=True)
    with b.loop(b.const(0), b.dim("m"), b.const(1), kind="tile") as rows:
        b.store(out, b.reduce(b.load(x, [rows.index, b.const(0)], [1, 3000]), "sum", 1), [rows.index], [1])
    program = b.program(num_warps=warps)
    artifact = in_registers(program, [numbers(f32, 3, 3000), poison(f32, 3)])
    assert artifact.launch.threads == 32 * warps


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e-42])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_special_values(kind: str, value: float):
    program = reduced(f32, kind, 1, (2, 40))
    x = numbers(f32, 2, 40)
    x[0, 17] = x[1, :] = value
    in_registers(program, [x, poison(f32, 2)])


def many(rows: int, columns: int, rounds: int) -> Program:
    """Rows less their largest element, over their sum, again and again, in a loop with a branch in it."""
    b = Maker("many")
    x, out = b.matrix("x", f32, rows, columns), b.matrix("out", f32, rows, columns, mutable=True)
    zero, one = b.const(0), b.const(1)
    tile = b.load(x, [zero, zero], [rows, columns])

    def normal(t: Value) -> Value:
        top = b.broadcast(b.reshape(b.reduce(t, "max", 1), rows, 1), rows, columns)
        total = b.broadcast(b.reshape(b.reduce(t, "sum", 0), 1, columns), rows, columns)
        return b.value("add", b.value("sub", t, top), total)

    def body(i: Value, carried: Values) -> Values:
        (t,) = carried
        return b.branch(b.compare("eq", i, one), lambda: (normal(t),), lambda: (b.value("mul", t, t),))

    (tile,) = b.trips([zero, b.const(rounds), one], (tile,), body)
    b.store(out, tile, [zero, zero], [rows, columns])
    return b.program()


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (33, 70), (128, 16)])
@pytest.mark.parametrize("seed", [1, 2])
def test_exchanges_in_loops_and_branches(rows: int, columns: int, seed: int):
    """The warps run in any order between barriers: shared memory is written again only when all have read it."""
    in_registers(many(rows, columns, 3), [numbers(f32, rows, columns), poison(f32, rows, columns)], seed)


def test_one_barrier_an_exchange():
    """Two pieces of memory take turns, so no lane waits for others to have read."""
    b = Maker("turns")
    x, out = b.matrix("x", f32, "m", 8192, wide=True), b.matrix("out", f32, "m", 8192, wide=True, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("m"), b.const(1), kind="tile") as rows:
        tile = b.load(x, [rows.index, zero], [1, 8192])
        for _ in range(3):
            total = b.broadcast(b.reshape(b.reduce(tile, "sum", 1), 1, 1), 1, 8192)
            tile = b.value("sub", tile, total)
        b.store(out, tile, [rows.index, zero], [1, 8192])
    artifact = compile_ptx(b.program())
    assert ptx_of(artifact).count("bar.sync") == 3
    assert artifact.resources.shared_bytes <= 2048


@pytest.mark.parametrize("block", [4096, 8192])
def test_the_librarys_long_rows(block: int):
    """Whole blocks without masks, the last one with; then the blocks' results, all in one group."""
    x, y, total = numbers(f32, 1, 20000), poison(f32, 1, -(-20000 // block)), poison(f32, 1, 1)
    blocks = reduce_row_blocks.variant(KIND=0, WIDEN=0, LOWEST=-0.0, BLOCK=block)
    simulate(blocks.compile(x, y, target="cuda:sm_90a").program, [x, y])
    pairs = reduce_pairs.variant(KIND=0, BLOCK=1024, HALVES=tuple(1024 >> n for n in range(1, 11)), LOWEST=-0.0)
    simulate(pairs.compile(y, total, target="cuda:sm_90a").program, [y, total])
    assert same_bits(total[:, 0], tree_sum(x, 1))


def test_a_maximum_first_compares_what_a_lane_has():
    """Two shuffles for each of a lane's two rows, in the first round's code and in that of the others."""
    shuffles = len(places(code(attention()), r"shfl\.sync\.bfly"))
    sums_at_the_end = 8  # two rows, of each two columns: every eighth weight was added apart
    assert shuffles == 2 * 4 + sums_at_the_end


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [f64, f32, f16, bf16], ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((16, 64), 1), ((16, 64), 0), ((200,), None)], ids=str)
def test_of_two_zeros_the_negative_one_is_smaller(kind: str, dtype: DType, shape: tuple[int, ...], axis: int | None):
    left = () if axis is None else (*shape[:axis], *shape[axis + 1 :])
    for share in (0.05, 0.95):
        negative = np.random.default_rng(3).random(shape) < share
        values = np.where(negative, -0.0, 0.0).astype(dtype.numpy)
        in_registers(reduced(dtype, kind, axis, shape), [values, poison(dtype, *(left or (1,)))])
