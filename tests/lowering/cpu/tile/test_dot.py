"""Matrix products agree with the interpreter's chain of fused multiply-adds on every bit, whatever the blocks."""

import platform
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builder import Builder
from support.cpu import LARGE, SMALL, target_module
from support.tile_kernels import Kernel, check, numbers, outputs
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i8, i32, i64
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.core.tile.dialect import shared_context
from tessera.lowering.cpu.base.cache_model import CacheModel
from tessera.lowering.cpu.codegen import generate_code, lower_to_llvm
from tessera.lowering.cpu.tile.blocking import choose, unrolled

SHAPES = [(1, 1, 1), (1, 40, 30), (4, 7, 33), (30, 1, 20), (5, 16, 8), (6, 16, 12), (13, 33, 17), (64, 48, 40),
          (19, 100, 21), (40, 20, 600), (3, 130, 50)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("accumulate", [False, True])
def test_shapes(shape: tuple[int, int, int], accumulate: bool):
    m, n, d = shape
    k = Kernel("k")
    a, b = k.take("a", m, d), k.take("b", d, n)
    k.put("out", k.dot(a, b, k.take("c", m, n) if accumulate else None))
    program = k.program()
    start = [numbers((m, n), seed=2)] if accumulate else []
    check(program, numbers((m, d)), numbers((d, n), seed=1), *start, *outputs(program))


@pytest.mark.parametrize(("dtype", "result"), [(f64, f64), (f16, f32), (f16, f16), (bf16, f32), (bf16, bf16), (i32, i32),
                                               (i64, i64), (i8, i32)], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(9, 24, 20), (2, 20, 10), (20, 1, 9)], ids=str)
def test_dtypes(dtype: DType, result: DType, shape: tuple[int, int, int]):
    m, n, d = shape
    k = Kernel("k")
    a, b, c = k.take("a", m, d, dtype=dtype), k.take("b", d, n, dtype=dtype), k.take("c", m, n, dtype=result)
    k.put("out", k.dot(a, b, c))
    program = k.program()
    check(program, numbers((m, d), dtype), numbers((d, n), dtype, 1), numbers((m, n), result, 2), *outputs(program))


@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
@pytest.mark.parametrize("shape", [(14, 33, 19), (3, 20, 9), (24, 16, 40)], ids=str)
def test_transposed_operands(turn_a: bool, turn_b: bool, dtype: DType, shape: tuple[int, int, int]):
    m, n, d = shape
    k = Kernel("k")
    a = k.transpose(k.take("a", d, m, dtype=dtype), 1, 0) if turn_a else k.take("a", m, d, dtype=dtype)
    b = k.transpose(k.take("b", n, d, dtype=dtype), 1, 0) if turn_b else k.take("b", d, n, dtype=dtype)
    k.put("out", k.dot(a, b, dtype=f32))
    program = k.program()
    of_a, of_b = ((d, m) if turn_a else (m, d)), ((n, d) if turn_b else (d, n))
    check(program, numbers(of_a, dtype), numbers(of_b, dtype, 1), *outputs(program))


@pytest.mark.parametrize("shape", [(19, 70, 40), (40, 33, 300), (2, 130, 20), (17, 5, 9)], ids=str)
@pytest.mark.parametrize("features", [SMALL, LARGE], ids=["128 bits", "512 bits"])
@pytest.mark.parametrize("turn", [False, True])
def test_registers_of_other_sizes_give_the_same_bits(shape: tuple[int, int, int], features: str, turn: bool):
    m, n, d = shape
    k = Kernel("k")
    b = k.transpose(k.take("b", n, d), 1, 0) if turn else k.take("b", d, n)
    k.put("out", k.dot(k.take("a", m, d), b))
    program = k.program()
    of_b = (n, d) if turn else (d, n)
    check(program, numbers(of_b), numbers((m, d), seed=1), *outputs(program), features=features)


def test_operands_computed_on_the_way():
    k = Kernel("k")
    a, b, c = k.take("a", 20, 24), k.take("b", 24, 40), k.take("c", 20, 40)
    scaled = k.value("mul", c, k.full(k.const(0.5, f32), 20, 40))
    product = k.dot(k.value("add", a, a), k.value("sub", b, k.full(k.const(1.0, f32), 24, 40)), scaled)
    k.put("twice", k.dot(product, k.transpose(product, 1, 0)))
    program = k.program()
    check(program, numbers((20, 24)), numbers((24, 40), seed=1), numbers((20, 40), seed=2), *outputs(program))


@pytest.mark.parametrize("shape", [(50, 70, 90), (64, 96, 64), (5, 200, 33)], ids=str)
@pytest.mark.parametrize("tile", [(32, 48, 32), (2, 64, 16), (24, 1, 16)], ids=str)
def test_tiles_that_stick_out(shape: tuple[int, int, int], tile: tuple[int, int, int]):
    (m, n, d), (bm, bn, bk) = shape, tile
    check(blocked(bm, bn, bk), numbers((m, d)), numbers((d, n), seed=1), np.zeros((m, n), np.float32))


@pytest.mark.parametrize("shape", [(50, 70, 90), (64, 96, 64), (70, 40, 1024), (5, 7, 1)], ids=str)
@pytest.mark.parametrize("tile", [(32, 48, 32), (3, 64, 16), (50, 40, 40)], ids=str)
@pytest.mark.parametrize("turn", [False, True])
def test_rows_of_known_length(shape: tuple[int, int, int], tile: tuple[int, int, int], turn: bool):
    """Read in place where a tile lies inside, else packed; 1024 steps lie a page apart, and are packed."""
    m, n, d = shape
    a = numbers((d, m) if turn else (m, d))
    check(blocked_at(shape, tile, turn=turn), a, numbers((d, n), seed=1), np.zeros((m, n), np.float32))


@pytest.mark.parametrize("shape", [(140, 610, 256), (30, 40, 514), (134, 100, 512)], ids=str)
@pytest.mark.parametrize("features", ["", LARGE], ids=["this machine", "512 bits"])
@pytest.mark.parametrize("turn", ["", "a", "b"])
def test_more_than_fits_a_cache_at_once(shape: tuple[int, int, int], features: str, turn: str):
    """Several bands of rows, several packings of columns, several blocks of K."""
    m, n, d = shape
    k = Kernel("k")
    a = k.transpose(k.take("a", d, m), 1, 0) if turn == "a" else k.take("a", m, d)
    b = k.transpose(k.take("b", n, d), 1, 0) if turn == "b" else k.take("b", d, n)
    k.put("out", k.dot(a, b, k.take("c", m, n)))
    program = k.program()
    of_a, of_b = ((d, m) if turn == "a" else (m, d)), ((n, d) if turn == "b" else (d, n))
    start = numbers((m, n), seed=2)
    check(program, numbers(of_a), numbers(of_b, seed=1), start, *outputs(program), features=features)


@given(st.integers(1, 60), st.integers(1, 80), st.integers(1, 70), st.sampled_from([f32, f64, f16]), st.data())
@settings(max_examples=12, deadline=None)
def test_any_shape_at_any_edge(m: int, n: int, d: int, dtype: DType, data: st.DataObject):
    """A loop over K whose blocks stick out of the arrays, as far as the hints of what comes next look."""
    bm, bn, bk = (data.draw(st.integers(1, most + 8)) for most in (m, n, d))
    check(blocked(bm, bn, bk, dtype), numbers((m, d), dtype), numbers((d, n), dtype, 1), numbers((m, n), dtype, 2))


def blocked(bm: int, bn: int, bk: int, dtype: DType = f32) -> Program:
    """C = A B in blocks of bm x bn, bk steps of K at a time."""
    b = Builder("matmul")
    a, w = b.array("A", dtype, "M", "K"), b.array("B", dtype, "K", "N")
    c = b.array("C", dtype, "M", "N", mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(bm), kind="tile") as rows,
        b.loop(zero, b.dim("N"), b.const(bn), kind="tile") as columns,
    ):
        with b.loop(zero, b.dim("K"), b.const(bk), [b.full(b.const(0.0, dtype), bm, bn)]) as steps:
            left = b.load(a, [rows.index, steps.index], [bm, bk])
            right = b.load(w, [steps.index, columns.index], [bk, bn])
            steps.yields = (b.dot(left, right, steps.carried[0], dtype=dtype),)
        b.store(c, steps.results[0], [rows.index, columns.index], [bm, bn])
    return b.program()


def blocked_at(shape: tuple[int, int, int], tile: tuple[int, int, int], *, turn: bool) -> Program:
    """The same of arrays whose extents are known; `turn`: A is given as its transpose."""
    (m, n, d), (bm, bn, bk) = shape, tile
    b = Builder("matmul")
    a, w = b.array("A", f32, *((d, m) if turn else (m, d))), b.array("B", f32, d, n)
    c = b.array("C", f32, m, n, mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.const(m), b.const(bm), kind="tile") as rows,
        b.loop(zero, b.const(n), b.const(bn), kind="tile") as columns,
    ):
        with b.loop(zero, b.const(d), b.const(bk), [b.full(b.const(0.0, f32), bm, bn)]) as steps:
            if turn:
                left = b.transpose(b.load(a, [steps.index, rows.index], [bk, bm]), 1, 0)
            else:
                left = b.load(a, [rows.index, steps.index], [bm, bk])
            right = b.load(w, [steps.index, columns.index], [bk, bn])
            steps.yields = (b.dot(left, right, steps.carried[0], dtype=f32),)
        b.store(c, steps.results[0], [rows.index, columns.index], [bm, bn])
    return b.program()


@pytest.mark.parametrize("machine", [CacheModel(), CacheModel(64, 32)], ids=["16 registers", "32 registers"])
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 2000), st.sampled_from([4, 8]))
@settings(max_examples=60, deadline=None)
def test_blocks_cover_everything_once(machine: CacheModel, rows: int, columns: int, depth: int, size: int):
    blocking = choose(rows, columns, depth, size, machine)
    seen: list[int] = []
    for height in blocking.heights:
        assert height.rows <= blocking.step
        assert height.rows * blocking.vectors <= machine.registers - 3 or height.rows == 1
        for block in range(height.first, height.past):
            start = height.origin + block * height.rows
            seen += range(start, start + height.rows)
    assert seen == list(range(rows))
    assert blocking.heights[-1].past == blocking.blocks
    assert max(h.rows for h in blocking.heights) - min(h.rows for h in blocking.heights) <= 1
    assert (blocking.panels - 1) * blocking.width < columns <= blocking.panels * blocking.width
    assert 1 <= blocking.depth_block <= max(depth, 1)
    for steps in (blocking.depth_block, depth % blocking.depth_block or 1):
        assert steps % blocking.segment(steps) == 0
        assert blocking.segment(steps) % unrolled(blocking.segment(steps)) == 0


@pytest.mark.parametrize(("machine", "size", "panel"), [(CacheModel(), 4, (6, 16)), (CacheModel(), 8, (6, 8)),
                                                        (CacheModel(64, 32), 4, (12, 32)), (CacheModel(64, 32), 8, (12, 16))],
                         ids=str)  # fmt: skip
def test_a_panel_is_what_registers_hold(machine: CacheModel, size: int, panel: tuple[int, int]):
    blocking = choose(512, 512, 256, size, machine)
    assert (blocking.step, blocking.width) == panel


@pytest.mark.parametrize(("features", "sums", "hints"), [("+avx2,+fma", "6 x 2 x 8", (3, 5)),
                                                         (LARGE, "12 x 2 x 16", (4, 9))], ids=["16 registers", "32 registers"])  # fmt: skip
def test_the_inner_loop(features: str, sums: str, hints: tuple[int, int]):
    """Two steps of K a round, so many rows and vectors of so many lanes, and hints of what comes next in front of it.

    For the first-level cache: sums, and the rows of C, in two versions.  For the second: the next rows and columns.
    """
    rows, vectors, lanes = (int(number) for number in sums.split(" x "))
    with shared_context():
        text = str(target_module(blocked(96, 96, 256), features=features).module)
    assert len(re.findall(rf"math\.fma .* : vector<{lanes}xf32>", text)) == 2 * rows * vectors
    assert "math.fma" not in re.sub(rf"math\.fma .* : vector<{lanes}xf32>", "", text)
    found = tuple(len(re.findall(rf"llvm\.intr\.prefetch.*hint = {hint} : i32", text)) for hint in (3, 2))
    assert found == hints


@pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86")
def test_sums_stay_in_wide_registers():
    target = Target("cpu", "skylake-avx512", "")
    with shared_context():
        made = target_module(blocked(24, 96, 256), features=LARGE).module
        lower_to_llvm(made)
        assembly = generate_code(made, target, observe=True).assembly
    assert len(re.findall(r"vfmadd\w+ps\s.*zmm", assembly)) == 2 * 12 * 2
    assert not re.findall(r"zmm\d+, \d*\(%rsp\)|\(%rsp\), %zmm", assembly)
