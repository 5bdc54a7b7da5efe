"""The layout view's model: grids against the layouts they show, accesses, and layouts that the compiler chose."""

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import NothingToShow
from tessera.core.layouts import accumulator, spread
from tessera.viz.layouts.banks import SharedLayout
from tessera.viz.layouts.fragments import Fragment
from tessera.viz.layouts.model import (
    compiled_model,
    fragment_model,
    instruction_model,
    named_accesses,
    register_grid,
    shared_grid,
)

PRODUCT = """
@kernel
def product(A: f16[M, K], B: f16[K, N], C: mut f32[M, N]):
    for m in tile.range(M, step=64):
        for n in tile.range(N, step=64):
            total = tile.zeros((64, 64), f32)
            for k in tile.range(K, step=32):
                total += tile.dot(A[m:m+64, k:k+32], B[k:k+32, n:n+64])
            C[m:m+64, n:n+64] = total
"""


def test_a_grid_of_registers_says_what_the_layout_says():
    layout = accumulator((32, 16), 1)
    grid = register_grid(layout, "acc")
    lane, register, warp = (field.values for field in grid.fields)
    for element in range(32 * 16):
        assert layout.element(int(register[element]), int(lane[element]), int(warp[element])) == element
    assert len(grid.held) == 64
    assert grid.held[0] == ("0", "0", "[0,0] [0,1] [8,0] [8,1] [0,8] [0,9] [8,8] [8,9]")
    assert grid.facts == ("8 elements a lane, 32 lanes, 2 warps",)


def test_columns_that_an_accumulator_lacks_are_left_out():
    fragment = Fragment.of("wgmma.m64n24k16")
    (grid,) = fragment_model([fragment], "acc").grids
    assert (grid.shape, grid.columns) == ((64, 24), 24)
    lane = grid.fields[0].values.reshape(64, 24)
    assert lane.min() >= 0
    assert lane[9, 17] == 4 * 1 + 0
    assert grid.facts[0].startswith("12 elements a lane")


def test_elements_that_several_places_hold_show_the_first():
    grid = register_grid(spread((8,), [("lanes", 1), ("lanes", 2), ("lanes", 4)], 0), "x")
    assert grid.fields[0].values.tolist() == list(range(8))
    assert grid.facts[1] == "4 lanes or warps hold each element; the first is shown"


def test_a_grid_of_shared_memory_and_its_accesses():
    layout = SharedLayout((8, 32), 4)
    places = [(lane % 8, 0) for lane in range(32)]
    grid = shared_grid(layout, "tile", named_accesses(layout, {"mine": places}, 4))
    assert np.array_equal(grid.fields[0].values.reshape(8, 32), np.tile(np.arange(32), (8, 1)))
    (access,) = grid.accesses
    assert access.text == "mine: 8-way bank conflict"
    assert access.rows[0][:2] == ("0", "0 to 31")
    assert access.rows[0][2].startswith("word 0: lanes 0, 8, 16, 24; word 32: lanes 1, 9, 17, 25")
    assert access.first[3] == 96
    with pytest.raises(ValueError, match=r"mine: \[8, 0\] is outside a tile of 8 x 32"):
        shared_grid(layout, "tile", named_accesses(layout, {"mine": [(8, 0)]}, 4))
    with pytest.raises(ValueError, match="each lane has 2 indices"):
        named_accesses(layout, {"mine": [(8,)]}, 4)


def test_all_operands_of_an_instruction():
    mma = instruction_model("mma.sync.m16n8k16", None, None)
    assert [(grid.kind, grid.shape) for grid in mma.grids] == [
        ("registers", (16, 16)), ("registers", (16, 8)), ("registers", (16, 8)),
    ]  # fmt: skip
    wgmma = instruction_model("wgmma.m64n128k16", None, None)
    assert [(grid.kind, grid.shape) for grid in wgmma.grids] == [
        ("registers", (64, 16)), ("registers", (64, 128)), ("shared", (128, 64)),
    ]  # fmt: skip


def test_layouts_that_the_compiler_chose():
    a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
    kernel = tessera.compile_source(PRODUCT).product
    model = compiled_model(kernel.compile(a, a, c, target="cuda:sm_80"))
    total = next(grid for grid in model.grids if grid.title.startswith("total tile<64x64xf32>"))
    assert total.kind == "registers"
    assert total.lines
    # Of 4 warps, two lie along the rows and two along the columns.
    assert total.forward == (
        "row = lane / 4 + 8 * (r / 2 % 2) + 16 * (warp % 2) + 32 * (r / 16), "
        "col = r % 2 + 2 * (lane % 4) + 8 * (r / 4 % 4) + 32 * (warp / 2)"
    )
    staged = [grid for grid in model.grids if grid.kind == "shared"]
    assert {grid.shape for grid in staged} == {(64, 32), (32, 64)}
    assert all({a.name: a.degree for a in grid.accesses}["ldmatrix.x4: 16 x 16 of 16 bits"] == 1 for grid in staged)


def test_a_cpu_has_no_lanes_with_registers():
    a, c = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    kernel = tessera.compile_source(PRODUCT).product
    with pytest.raises(NothingToShow, match=r'layout\(kernel.compile\(target="cuda"\)\)'):
        compiled_model(kernel.compile(a, a, c, target="cpu"))


def test_a_kernel_of_single_elements_has_no_layouts():
    kernel = tessera.compile_source("""
@kernel
def twice(x: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        x[i] = x[i] * 2.0
""").twice
    with pytest.raises(NothingToShow, match="only kernels that compute whole tiles"):
        compiled_model(kernel.compile(np.zeros(64, np.float32), target="cuda:sm_90a"))


PADDED = """
@kernel
def scaled(x: f32[r, 7], y: mut f32[r, 7], z: mut f32[r]):
    for t in tile.range(r, step=6):
        v = x[t:t+6, :]
        y[t:t+6, :] = v * 2.0
    for t in tile.range(r):
        u = x[t, :]
        z[t] = tile.sum(u)
"""


def test_tiles_of_any_extent_and_of_every_phase():
    x, z = np.zeros((12, 7), np.float32), np.zeros(12, np.float32)
    compiled = tessera.compile_source(PADDED).scaled.compile(x, x.copy(), z, target="cuda:sm_90a")
    assert len(compiled.phases) == 2
    grids = {grid.title.split(",")[0]: grid for grid in compiled_model(compiled).grids}
    whole, row = grids["v tile<6x7xf32>"], grids["u tile<7xf32>"]
    assert (whole.shape, row.shape) == ((6, 7), (7,))
    assert whole.facts[-1] == "registers hold a tile padded to 8 x 8"
    lane, register, warp = (field.values for field in whole.fields)
    assert len(lane) == 42
    assert lane.min() >= 0
    # Each element has a place of its own, and the places list every element, and none beyond the edge.
    assert len(set(zip(lane.tolist(), register.tolist(), warp.tolist(), strict=True))) == 42
    held = {place for _, _, told in whole.held for place in told.split()}
    assert held == {f"[{i},{j}]" for i in range(6) for j in range(7)}


def test_buffers_that_a_kernel_allocates():
    text = """
@kernel tile[(32,)]
def turned(A: f32[32, 32], B: mut f32[32, 32]):
    smem = tshared.alloc[f32](32, 32, swizzle="xor")
    i = tile.linear_id()
    for r in range(32):
        smem[r, i] = A[r, i]
    tbarrier()
    for r in range(32):
        B[r, i] = smem[i, r]
"""
    a = np.zeros((32, 32), np.float32)
    model = compiled_model(tessera.compile_source(text).turned.compile(a, a.copy(), target="cuda:sm_80"))
    (grid,) = model.grids
    assert grid.title.startswith("smem shared<32x32xf32, xor>, line ")
    assert [access.degree for access in grid.accesses] == [1, 4, 1, 1]
