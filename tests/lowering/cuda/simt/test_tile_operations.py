"""Tile operations: what the group computes together, against the interpreter, bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal, poison
from support import programs
from support.architectures import limit_shared_memory
from support.interpret_programs import Writer
from tessera.core.base.dtypes import DType, bf16, f16, f32, i32, i64, u8
from tessera.core.program.program import Domain


@pytest.fixture
def little_shared(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def limit(size: int) -> None:
        limit_shared_memory(monkeypatch, size)

    return limit


def test_a_product_with_edges():
    agree(programs.matmul(16, 16, 8), [normal(20, 10), normal(10, 33), poison(20, 33)])


def test_factors_are_rounded_to_tf32_element_by_element():
    """Of tiles whose extents are no powers of two."""
    b = Writer("product")
    a, w, out = b.array("a", f32, 12, 9), b.array("b", f32, 9, 8), b.array("out", f32, 12, 8, mutable=True)
    zero = b.const(0)
    factors = b.load(a, [zero, zero], [12, 9]), b.load(w, [zero, zero], [9, 8])
    b.store(out, b.dot(*factors, dtype=f32, compute="tf32"), [zero, zero], [12, 8])
    agree(b.program(), [normal(12, 9), normal(9, 8), poison(12, 8)])


@pytest.mark.parametrize(("dtype", "result"), [(f16, f32), (bf16, f32), (i32, i32), (u8, i32)], ids=str)
def test_products_of_every_kind(dtype: DType, result: DType):
    b = Writer("product")
    a, w = b.array("a", dtype, 12, 9), b.array("b", dtype, 9, 8)
    out = b.array("out", result, 12, 8, mutable=True)
    zero = b.const(0)
    tile = b.dot(b.load(a, [zero, zero], [12, 9]), b.load(w, [zero, zero], [9, 8]), dtype=result)
    b.store(out, tile, [zero, zero], [12, 8])
    random = np.random.default_rng(0)

    def make(*shape: int) -> np.ndarray:
        if dtype.is_float:
            return normal(*shape, dtype=dtype.numpy)
        return random.integers(0, 200, shape).astype(dtype.numpy)

    agree(b.program(), [make(12, 9), make(9, 8), np.zeros((12, 8), result.numpy)])


@pytest.mark.parametrize("size", [1, 200, 16384])
def test_shared_memory_may_be_full(size: int, little_shared: Callable[[int], None]):
    """Then tiles go to private global memory, and a block does several groups."""
    little_shared(size)
    artifact, _ = agree(programs.matmul(8, 8, 4), [normal(14, 6), normal(6, 15), poison(14, 15)])
    assert (artifact.resources.scratch_bytes > 0) == (size < 16384)
    assert artifact.resources.shared_bytes <= size
    shapes = ((10, 4), (4, 8), (8,), (8, 4), (4,))
    agree(programs.fused_mlp(10, 4, 8, 4), [*(normal(*shape) for shape in shapes), poison(10, 4)])


REDUCTIONS = [
    *((f32, kind, axis) for kind in ("sum", "max", "min") for axis in (0, 1, None)),
    (f16, "sum", 1), (bf16, "max", None), (i64, "sum", 1), (i64, "min", 0), (u8, "max", 1), (u8, "min", None),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind", "axis"), REDUCTIONS, ids=str)
def test_reductions(dtype: DType, kind: str, axis: int | None):
    b = Writer("reduction")
    x = b.array("x", dtype, 5, 140)
    shape = {0: (140,), 1: (5,), None: (1,)}[axis]
    out = b.array("out", dtype, *shape, mutable=True)
    zero = b.const(0)
    result = b.reduce(b.load(x, [zero, zero], [5, 140]), kind, axis)
    if axis is None:
        b.write(out, result, zero)
    else:
        b.store(out, result, [zero], list(shape))
    random = np.random.default_rng(1)
    x = normal(5, 140, dtype=dtype.numpy) if dtype.is_float else random.integers(3, 250, (5, 140)).astype(dtype.numpy)
    agree(b.program(), [x, np.zeros(shape, dtype.numpy)])


@pytest.mark.parametrize("length", [4096, 4097, 12300])
def test_long_sums_are_added_block_by_block(length: int):
    b = Writer("long")
    x, out = b.array("x", f32, 2, "n"), b.array("out", f32, 2, mutable=True)
    zero = b.const(0)
    b.store(out, b.reduce(b.load(x, [zero, zero], [2, length]), "sum", 1), [zero], [2])
    agree(b.program(), [normal(2, length - 3), poison(2)], seed=None)


@pytest.mark.parametrize("lanes", [1, 7, 8, 40, 128])
def test_reductions_by_groups_of_any_size(lanes: int):
    b = Writer("sizes")
    x, out = b.array("x", f32, 9, 70), b.array("out", f32, 9, mutable=True)
    zero = b.const(0)
    b.store(out, b.reduce(b.load(x, [zero, zero], [9, 70]), "sum", 1), [zero], [9])
    agree(b.program(group=(lanes,), domain=Domain("lanes", (lanes,))), [normal(9, 70), poison(9)])


def test_shapes_change_without_moving_data():
    b = Writer("shapes")
    x, out = b.array("x", f32, 6, 10), b.array("out", f32, 5, 12, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero, zero], [6, 10])
    row = b.reshape(b.reduce(tile, "max", 1), 6, 1)
    tile = b.value("sub", tile, b.broadcast(row, 6, 10))
    tile = b.transpose(b.reshape(b.transpose(tile, 1, 0), 12, 5), 1, 0)
    offsets = b.broadcast(b.reshape(b.cast(b.arange(b.const(3), 12), f32), 1, 12), 5, 12)
    b.store(out, b.value("add", tile, offsets), [zero, zero], [5, 12])
    agree(b.program(), [normal(6, 10), poison(5, 12)])


def test_carried_tiles_may_change_places():
    b = Writer("swap")
    x, out = b.array("x", f32, 8, 8), b.array("out", f32, 8, 8, mutable=True)
    zero = b.const(0)
    first = b.load(x, [zero, zero], [8, 8])
    with b.loop(zero, b.const(3), b.const(1), [first, b.value("add", first, first)], names=("i", "a", "b")) as loop:
        one, two = loop.carried
        loop.yields = (two, b.value("add", b.transpose(one, 1, 0), two))
    b.store(out, b.value("mul", *loop.results), [zero, zero], [8, 8])
    agree(b.program(), [normal(8, 8), poison(8, 8)])


def test_a_tile_is_loaded_before_its_memory_is_overwritten():
    b = Writer("shift")
    y = b.array("y", f32, "n", mutable=True)
    zero = b.const(0)
    for distance in (1, 2):
        tile = b.load(y, [b.const(distance)], [300])
        b.store(y, b.value("add", tile, tile), [zero], [300])
    agree(b.program(), [normal(310)])


def test_a_tile_updated_in_place_needs_no_copy():
    b = Writer("update")
    y = b.array("y", f32, "n", mutable=True)
    zero = b.const(0)
    tile = b.load(y, [zero], [300])
    b.store(y, b.value("add", tile, tile), [zero], [300])
    artifact, _ = agree(b.program(), [normal(310)])
    assert artifact.resources.shared_bytes == 0


def test_loops_and_branches_around_tiles():
    b = Writer("control")
    x, out, k = b.array("x", f32, 70), b.array("out", f32, 70, mutable=True), b.scalar("k", i64)
    zero, one = b.const(0), b.const(1)
    tile = b.load(x, [zero], [70])
    (tile,) = b.branch(
        b.compare("gt", k, one), lambda: (b.value("add", tile, tile),), lambda: (b.value("mul", tile, tile),)
    )
    _, tile = b.repeat(
        (k, tile),
        lambda v: b.compare("gt", v[0], zero),
        lambda v: (b.value("sub", v[0], one), b.value("mul", v[1], v[1])),
    )
    b.store(out, tile, [zero], [70])
    for value in (0, 1, 3):
        agree(b.program(), [normal(70), poison(70), value])


def test_a_sum_asked_for_by_one_lane_is_the_groups_work():
    artifact, _ = agree(programs.group_sum(), [normal(500), poison(1)], 1)
    assert b"shfl.sync.bfly" in artifact.code


def test_a_sum_that_only_some_lanes_can_know():
    """The buffer is written inside the branch, so nothing can be computed before it."""
    b = Writer("late")
    out = b.array("out", f32, "n", mutable=True)
    buffer = b.alloc(f32, 16)
    lane, zero = b.id("lane"), b.const(0)
    b.write(buffer, b.cast(lane, f32), lane)
    b.barrier()
    with b.when(b.compare("eq", lane, b.const(5))):
        b.write(buffer, b.const(100.0, f32), zero)
        b.write(out, b.reduce(b.load(buffer, [zero], [16])), lane)
    agree(b.program(group=(48,), domain=Domain("lanes", (48,))), [poison(48)])


@pytest.mark.parametrize("replaced", ["other", "own"])
def test_a_tile_is_read_before_its_place_is_stored_to(replaced: str):
    """A tile that is needed after a store to the very place it was loaded from, of other values or its own plus 1."""
    b = Writer("exchange")
    x, y, z = b.array("x", f32, 12, 9, mutable=True), b.array("y", f32, 12, 9), b.array("z", f32, 12, 9, mutable=True)
    lanes = b.array("lanes", f32, 32, mutable=True)
    window = [b.const(0), b.const(0)], [12, 9]
    b.write(lanes, b.const(1.0, f32), b.id("lane"))  # a kernel of lanes, whose tiles are computed where they are used
    old, other = b.load(x, *window), b.load(y, *window)
    b.store(x, other if replaced == "other" else b.value("neg", old), *window)
    b.store(z, b.value("neg", old), *window)
    program = b.program(domain=Domain("groups", (1,)), group=(32,))
    agree(program, [normal(12, 9), 2 * normal(12, 9) + 1, poison(12, 9), poison(32)])
