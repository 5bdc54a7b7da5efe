"""How many lanes compute a tile, and what keeps them in step."""

import re

import pytest

from lowering.cuda.cases import Maker, in_registers, numbers, plan_of, poison
from support.simulate import compile_cuda, compile_ptx, ptx_of
from tessera.core.base.dtypes import DType, bf16, f32, f64
from tessera.core.program.program import Attribute, Program


def doubled(dtype: DType, rows: int, columns: int, **options: Attribute) -> Program:
    b = Maker("doubled")
    x, out = b.matrix("x", dtype, "m", "n", wide=True), b.matrix("out", dtype, "m", "n", wide=True, mutable=True)
    zero = [b.const(0), b.const(0)]
    tile = b.load(x, zero, [rows, columns])
    b.store(out, b.value("add", tile, tile), zero, [rows, columns])
    return b.program(domain=None, group=None, **options)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "warps"),
    [(f32, 1, 32, 1), (f32, 1, 1024, 1), (f32, 4, 1024, 4), (f32, 3, 1000, 4), (bf16, 4, 1024, 4), (f64, 4, 1024, 8)],
    ids=str,
)  # fmt: skip
def test_about_32_words_a_lane(dtype: DType, rows: int, columns: int, warps: int):
    plan, _ = plan_of(doubled(dtype, rows, columns))
    assert plan is not None
    assert 1 << plan.bits == warps
    assert plan.schedule.min_blocks_per_sm == 0


@pytest.mark.parametrize("warps", [1, 2, 8])
def test_as_many_as_the_user_says(warps: int):
    artifact = in_registers(doubled(f32, 8, 512, num_warps=warps), [numbers(f32, 9, 512), poison(f32, 9, 512)])
    assert artifact.launch.threads == 32 * warps


def test_a_tile_of_one_element_is_written_once():
    """All other lanes hold copies."""
    b = Maker("single")
    x, out = b.matrix("x", f32, 1), b.matrix("out", f32, 1, mutable=True)
    b.store(out, b.load(x, [b.const(0)], [1]), [b.const(0)], [1])
    in_registers(b.program(), [numbers(f32, 1), poison(f32, 1)])
    assert re.search(r"setp\.\w+\.\w+ +%p1, %r\d+, 0", ptx_of(compile_ptx(b.program())).replace("\t", " "))


def normalised(columns: int, tiles: int = 1) -> Program:
    """Rows over their sums; with more `tiles`, of as many arrays that are all kept."""
    b = Maker("normalised")
    arrays = [b.matrix(f"x{n}", f32, "m", columns, wide=True) for n in range(tiles)]
    out = b.matrix("out", f32, "m", columns, wide=True, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("m"), b.const(1), kind="tile") as rows:
        where = [rows.index, zero]
        found = [b.load(array, where, [1, columns]) for array in arrays]
        for _ in range(2):
            sums = [b.broadcast(b.reshape(b.reduce(t, "sum", 1), 1, 1), 1, columns) for t in found]
            found = [b.value("div", tile, total) for tile, total in zip(found, reversed(sums), strict=True)]
        result = found[0]
        for tile in found[1:]:
            result = b.value("add", result, tile)
        b.store(out, result, where, [1, columns])
    return b.program()


@pytest.mark.parametrize(("columns", "lanes"), [(8192, 128), (1024, 32), (16384, 256)])
def test_reductions_leave_128_registers_to_a_lane(columns: int, lanes: int):
    plan, _ = plan_of(normalised(columns))
    assert plan is not None
    assert plan.schedule.min_blocks_per_sm == 512 // lanes
    artifact = compile_ptx(normalised(columns))
    assert artifact.launch.threads == lanes
    assert f".minnctapersm {512 // lanes}" in ptx_of(artifact)


def test_registers_are_not_spilled_for_the_sake_of_more_blocks():
    """Three rows at once need more than 128 registers, and have them."""
    resources = compile_cuda(normalised(8192, tiles=3)).artifact.resources
    assert resources.registers is not None
    assert resources.registers > 128
    assert resources.spill_bytes == 0
