"""Products by single warps, on the tensor cores of sm_80 and newer, run by the machine that executes PTX."""

import re

import numpy as np
import pytest

from support.builder import Builder
from support.product_programs import matrix_product
from support.simulate import compile_cuda, compile_ptx, ptx_of, simulate
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.program.program import Program
from tessera.runtime.interpret.rounding import to_tf32

Shape = tuple[int, int, int]


def operands(shape: Shape, dtype: DType, turned: tuple[bool, bool]) -> list[np.ndarray]:
    m, n, k = shape
    random = np.random.default_rng(sum(shape))
    left, right = (random.standard_normal(s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    stored = [np.ascontiguousarray(x.T) if flag else x for x, flag in zip((left, right), turned, strict=True)]
    return [*stored, np.full((m, n), np.nan, np.float32)]


def close(program: Program, arguments: list[np.ndarray], turned: tuple[bool, bool], arch: str) -> str:
    """The result is that of NumPy but for the order of the sums; gives the PTX."""
    artifact = simulate(program, arguments, None, arch, seed=1)
    left, right = (x.T if flag else x for x, flag in zip(arguments[:2], turned, strict=True))
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(arguments[2], want, rtol=0, atol=1e-5 * np.abs(want).max())
    return ptx_of(artifact)


CASES: list[tuple[Shape, Shape, DType, tuple[bool, bool], bool]] = [
    ((32, 32, 16), (40, 48, 56), bf16, (False, False), True),
    ((64, 32, 32), (72, 40, 104), bf16, (True, False), True),
    ((32, 64, 64), (40, 64, 136), f16, (False, True), True),
    ((16, 64, 64), (24, 72, 136), f16, (True, True), True),
    ((32, 16, 16), (37, 45, 51), bf16, (False, False), False),
    ((32, 32, 32), (37, 46, 52), f16, (False, True), False),
]


@pytest.mark.parametrize(("tile", "shape", "dtype", "turned", "aligned"), CASES, ids=str)
def test_products(tile: Shape, shape: Shape, dtype: DType, turned: tuple[bool, bool], aligned: bool):
    program = matrix_product(tile, dtype, turned=turned, aligned=aligned)
    text = close(program, operands(shape, dtype, turned), turned, "sm_80")
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype.name}.{dtype.name}.f32" in text
    assert "ldmatrix.sync.aligned" in text
    # A factor whose outer axis is contiguous is transposed on the way.
    assert (".trans" in text) == (turned[0] or not turned[1])
    assert "cp.async.cg.shared.global" in text


@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_however_warps_share_the_columns_the_bits_are_the_same(turned: tuple[bool, bool]):
    found: set[bytes] = set()
    for columns in (1, 2, 4):
        arguments = operands((72, 72, 40), bf16, turned)
        close(matrix_product((64, 64, 32), bf16, turned=turned, warp_columns=columns), arguments, turned, "sm_80")
        found.add(arguments[2].tobytes())
    assert len(found) == 1


TF32: list[tuple[str, Shape, Shape, tuple[bool, bool], bool]] = [
    ("sm_80", (32, 32, 16), (40, 48, 56), (False, False), True),
    ("sm_80", (64, 32, 32), (72, 40, 104), (True, False), True),
    ("sm_89", (32, 64, 32), (40, 64, 72), (False, True), True),
    ("sm_90a", (16, 64, 32), (24, 72, 72), (True, True), True),
    ("sm_90a", (64, 64, 32), (72, 72, 40), (True, False), True),
    ("sm_89", (64, 64, 32), (72, 72, 40), (False, False), True),
    ("sm_80", (16, 8, 8), (37, 13, 27), (False, False), False),
    ("sm_100a", (32, 32, 32), (37, 46, 52), (False, True), False),
]


@pytest.mark.parametrize(("arch", "tile", "shape", "turned", "aligned"), TF32, ids=str)
def test_products_of_tf32(arch: str, tile: Shape, shape: Shape, turned: tuple[bool, bool], aligned: bool):
    """The machine faults where bits are left that the hardware would cut off."""
    program = matrix_product(tile, f32, turned=turned, aligned=aligned, compute="tf32")
    arguments = operands(shape, f32, turned)
    artifact = simulate(program, arguments, None, arch, seed=1)
    left, right = (to_tf32(x.T if flag else x) for x, flag in zip(arguments[:2], turned, strict=True))
    want = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(arguments[2], want, rtol=0, atol=1e-6 * np.abs(want).max())
    text = ptx_of(artifact)
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in text
    assert ("cvt.rn.tf32" in text) == (arch in ("sm_90a", "sm_100a"))
    assert ("ldmatrix" in text) == (not turned[0] or turned[1])
    assert ".trans" not in text


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_infinities_and_nan_stay_what_they_are(arch: str):
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    a[0, 0], a[1, 1], a[2, 2], a[3, 3] = np.inf, np.nan, np.finfo(np.float32).max, -0.0
    np.fill_diagonal(b, 1)
    out = np.full((16, 16), np.nan, np.float32)
    simulate(matrix_product((16, 16, 16), f32, compute="tf32"), [a, b, out], None, arch)
    assert np.isposinf(out[0, 0])
    assert np.isnan(out[1]).all()
    assert np.isposinf(out[2, 2])
    assert not out[3:].any()


def test_few_rows_do_not_go_to_warp_groups():
    text = close(
        matrix_product((16, 32, 32), aligned=False),
        operands((16, 40, 64), bf16, (False, False)),
        (False, False),
        "sm_90a",
    )
    assert "mma.sync" in text
    assert "wgmma" not in text


def chained() -> Program:
    """out[m] = bf16(a[m] b) c, by rows: the first product's sums are the second's left factor."""
    b = Builder("chained")
    a = b.array("a", bf16, "M", 32, aligned=True)
    w, v = b.array("b", bf16, 32, 64, aligned=True), b.array("c", bf16, 64, 32, aligned=True)
    out = b.array("out", f32, "M", 32, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(32), kind="tile", names=("m",)) as rows:
        one, two = (
            b.load(x, [start, zero], shape) for x, start, shape in ((a, rows.index, [32, 32]), (w, zero, [32, 64]))
        )
        middle = b.cast(b.dot(one, two, dtype=f32), bf16)
        three = b.load(v, [zero, zero], [64, 32])
        b.store(out, b.dot(middle, three, dtype=f32), [rows.index, zero], [32, 32])
    return b.program()


def test_sums_are_factors_without_leaving_the_registers():
    random = np.random.default_rng(0)
    a, w, v = (random.standard_normal(s).astype(bf16.numpy) for s in ((48, 32), (32, 64), (64, 32)))
    out = np.full((48, 32), np.nan, np.float32)
    artifact = simulate(chained(), [a, w, v, out], None, "sm_80", seed=1)
    middle = (a.astype(np.float32) @ w.astype(np.float32)).astype(bf16.numpy)
    np.testing.assert_allclose(out, middle.astype(np.float32) @ v.astype(np.float32), rtol=0, atol=0.5)
    assert "st.shared" not in ptx_of(artifact)


@pytest.mark.parametrize(
    ("arch", "copies"), [("sm_80", "cp.async.cg"), ("sm_89", "cp.async.cg"), ("sm_100a", "cp.async.cg")]
)
def test_nothing_spills(arch: str, copies: str):
    compilation = compile_cuda(matrix_product((128, 128, 32), result=bf16), arch)
    resources = compilation.artifact.resources
    assert resources.spill_bytes == 0
    assert resources.stack_bytes == 0
    text = next(listing.text for listing in compilation.listings if listing.level == "ptx")
    assert copies in text
    # 128 x 128 x 32 elements by four warps, 16 x 8 x 16 at a time.
    assert len(re.findall(r"mma\.sync", text)) == 128 * 128 * 32 // (4 * 16 * 8 * 16)


@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_nothing_spills_where_rows_are_not_aligned(turned: tuple[bool, bool]):
    """Three ways to copy lie in the loop; none keeps its addresses from one round to the next."""
    program = matrix_product((128, 128, 64), result=bf16, aligned=False, turned=turned)
    assert compile_cuda(program, "sm_80").artifact.resources.spill_bytes == 0


def test_a_multiprocessor_has_room_for_two_blocks():
    artifact = compile_ptx(matrix_product((128, 128, 32)), "sm_80")
    assert artifact.resources.shared_bytes <= 163 * 1024 // 2
    assert artifact.launch.lanes_per_group == 128


@pytest.mark.parametrize("dtype", [bf16, f32], ids=str)
@pytest.mark.parametrize("step", [2, 3])
def test_factors_whose_elements_do_not_follow_each_other(dtype: DType, step: int):
    """Rows begin at multiples of 16 bytes, and still no two elements may be copied together."""
    b = Builder("product")
    a = b.array("A", dtype, "M", "K", contiguous=False)
    w = b.array("B", dtype, "K", "N")
    c = b.array("C", f32, "M", "N", mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(32), kind="tile", names=("m",)) as m:
        start = b.full(b.const(0.0, f32), 32, 32)
        with b.loop(zero, b.dim("K"), b.const(32), [start], names=("k", "acc")) as k:
            left, right = b.load(a, [m.index, k.index], [32, 32]), b.load(w, [k.index, zero], [32, 32])
            k.yields = (b.dot(left, right, k.carried[0]),)
        b.store(c, k.results[0], [m.index, zero], [32, 32])
    left, right, result = operands((40, 32, 64), dtype, (False, False))
    apart = np.repeat(left, step, axis=1)[:, : left.shape[1] * step]
    apart[:, 1::step] = np.nan
    close(b.program(), [apart[:, ::step], right, result], (False, False), "sm_80")
