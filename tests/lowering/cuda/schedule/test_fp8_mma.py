"""Products of floats of 8 bits: as bytes where both factors lie along K and the chip can, and as f16 everywhere else."""

import re
from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal, poison
from support import hardware
from support.builder import Builder
from support.simulate import compile_cuda, compile_ptx, ptx_of, simulate
from tessera.core.base.dtypes import DType, f32, fp8_e4m3, fp8_e5m2
from tessera.core.program.program import Program
from tessera.core.program.types import Tile
from tessera.core.targets import TARGETS

WHOLE = (128, 128, 128)


def product(
    dtype: DType, block: tuple[int, int, int] = WHOLE, *, along: bool = True, aligned: bool = True, exact: bool = False,
    **options: int,
) -> Program:  # fmt: skip
    """out = a b, blocks of `block` a group; of b either K is contiguous (`along`), or the columns are."""
    rows, columns, depth = block
    b = Builder("product")
    left = b.array("a", dtype, "M", "K", aligned=aligned)
    right = b.array("b", dtype, *(("N", "K") if along else ("K", "N")), aligned=aligned)
    out = b.array("out", f32, "M", "N", mutable=True, aligned=aligned)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(rows), kind="tile") as m,
        b.loop(zero, b.dim("N"), b.const(columns), kind="tile") as n,
    ):
        start = b.full(b.const(0.0, f32), rows, columns)
        with b.loop(zero, b.dim("K"), b.const(depth), [start]) as k:
            x = b.load(left, [m.index, k.index], [rows, depth])
            if along:
                y = b.transpose(b.load(right, [n.index, k.index], [columns, depth]), 1, 0)
            else:
                y = b.load(right, [k.index, n.index], [depth, columns])
            kind = Tile(f32, (rows, columns))
            k.yields = (b.op("dot", (x, y, k.arguments[1]), kind, exact=exact),)
        b.store(out, k.results[0], [m.index, n.index], [rows, columns])
    return replace(b.program(), options=options)


def instructions(program: Program, arch: str = "sm_90a") -> list[str]:
    """The kinds of products in the PTX."""
    return re.findall(
        r"(?:wgmma\.mma_async|mma)\.sync\.aligned\.[\w.]*|fma\.rn\.f32", ptx_of(compile_ptx(program, arch))
    )


@pytest.mark.parametrize(("dtype", "name"), [(fp8_e4m3, "e4m3"), (fp8_e5m2, "e5m2")], ids=str)
def test_hopper_multiplies_bytes(dtype: DType, name: str):
    assert instructions(product(dtype)) == [f"wgmma.mma_async.sync.aligned.m64n128k32.f32.{name}.{name}"] * 4


@pytest.mark.parametrize(
    ("block", "options"),
    [
        (WHOLE, {}),
        ((128, 256, 128), {}),
        ((64, 64, 32), {}),
        ((128, 256, 128), {"promotion_interval": 0}),
        ((256, 128, 64), {"promotion_interval": 0}),
    ],
)
def test_machine_code(block: tuple[int, int, int], options: dict[str, int]):
    compilation = compile_cuda(replace(product(fp8_e4m3, block), options=options))
    sass = next(listing.text for listing in compilation.listings if listing.level == "sass")
    resources = compilation.artifact.resources
    assert "QGMMA" in sass
    assert (resources.spill_bytes, resources.notes) == (0, ())


@pytest.mark.parametrize(
    ("options", "adds", "columns"),
    [
        ({}, 128, 128),
        ({"promotion_interval": 64}, 256, 128),
        ({"promotion_interval": 0}, 0, 256),
        ({"fast": True}, 0, 256),
    ],
)
def test_parts_of_k_are_added_in_f32(options: dict[str, int], adds: int, columns: int):
    ptx = ptx_of(compile_ptx(replace(product(fp8_e4m3, (128, 256, 128)), options=options)))
    assert len(re.findall(r"add\.rn\.f32", ptx)) == adds
    assert f"m64n{columns}k32" in ptx


@pytest.mark.parametrize(
    ("arch", "block"), [("sm_89", (64, 64, 64)), ("sm_100a", (64, 64, 64)), ("sm_90a", (32, 64, 64))], ids=str
)
@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_single_warps_multiply_bytes(arch: str, block: tuple[int, int, int], name: str):
    found = instructions(product(fp8_e4m3 if name == "e4m3" else fp8_e5m2, block), arch)
    assert found
    assert set(found) == {f"mma.sync.aligned.m16n8k32.row.col.f32.{name}.{name}.f32"}


@pytest.mark.parametrize("arch", TARGETS["cuda"].architectures)
def test_other_places_and_architectures_take_f16(arch: str):
    found = instructions(product(fp8_e5m2, (64, 64, 64), along=False), arch)
    assert found
    assert all(name.endswith((".f32.f16.f16", ".f32.f16.f16.f32")) for name in found)
    if arch == "sm_80":
        found = instructions(product(fp8_e4m3, (64, 64, 64)), arch)
        assert found
        assert all(name.endswith(".f32.f16.f16.f32") for name in found)


@pytest.mark.parametrize(("options", "adds"), [({}, True), ({"promotion_interval": 0}, False)])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("dtype", [fp8_e4m3, fp8_e5m2], ids=str)
def test_products_by_single_warps(dtype: DType, aligned: bool, options: dict[str, int], adds: bool):
    """Sums begin anew with every instruction where they are added in f32."""
    shape = (40, 80, 48) if aligned else (40, 70, 33)
    a, b = normal(*shape[:2], dtype=dtype.numpy), normal(shape[2], shape[1], dtype=dtype.numpy)
    out = poison(shape[0], shape[2])
    program = replace(product(dtype, (32, 32, 64), aligned=aligned), options=options)
    artifact = simulate(program, [a, b, out], arch="sm_89", seed=1)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4)
    assert ("add.rn.f32" in ptx_of(artifact)) == adds


def test_what_the_copy_engine_cannot_read_becomes_f16():
    program = product(fp8_e4m3, (64, 64, 64), aligned=False, pad_rows=0)
    assert all(name.endswith(".f16.f16") for name in instructions(program))


@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize("dtype", [fp8_e4m3, fp8_e5m2], ids=str)
def test_exact_products_have_the_interpreters_bits(dtype: DType, along: bool):
    a, b = normal(20, 40, dtype=dtype.numpy), normal(24, 40, dtype=dtype.numpy)
    right = b if along else np.ascontiguousarray(b.T)
    agree(product(dtype, (16, 16, 16), along=along, aligned=False, exact=True), [a, right, poison(20, 24)])


@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize("dtype", [fp8_e4m3, fp8_e5m2], ids=str)
def test_products_of_widened_factors(dtype: DType, along: bool):
    a, b = normal(40, 70, dtype=dtype.numpy), normal(33, 70, dtype=dtype.numpy)
    right = b if along else np.ascontiguousarray(b.T)
    out = poison(40, 33)
    simulate(product(dtype, (32, 32, 32), along=along, aligned=False), [a, right, out], arch="sm_80", seed=1)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"promotion_interval": 0}, {"promotion_interval": 64}])
@pytest.mark.parametrize(("along", "aligned"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("dtype", [fp8_e4m3, fp8_e5m2], ids=str)
def test_on_a_gpu(dtype: DType, along: bool, aligned: bool, options: dict[str, int]):
    a, b = normal(272, 528, dtype=dtype.numpy), normal(400, 528, dtype=dtype.numpy)
    right = b if along else np.ascontiguousarray(b.T)
    out = poison(272, 400)
    program = product(dtype, (128, 128, 128 if aligned and along else 64), along=along, aligned=aligned)
    hardware.simulate(replace(program, options=options), [a, right, out])
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bound = 2**-7 if options.get("promotion_interval") == 0 else 2**-10  # of the largest sum
    assert np.abs(out - exact).max() <= bound * np.abs(exact).max()


def test_bytes_are_widened_where_shared_memory_has_no_room_for_them():
    """Two products of 128 KiB of factors each: what is left has no code for bytes."""
    b = Builder("products")
    factors = [b.array(name, fp8_e4m3, "M", "K", aligned=True) for name in "ABCD"]
    results = [b.array(name, f32, "M", "N", aligned=True, mutable=True) for name in "EF"]
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        a, b_, c, d = (b.load(factor, [m.index, zero], [128, 512]) for factor in factors)
        for result, left, right in zip(results, (a, c), (b_, d), strict=True):
            b.store(result, b.dot(left, b.transpose(right, 1, 0), dtype=f32), [m.index, zero], [128, 128])
    text = ptx_of(compile_ptx(b.program()))
    assert "cvt.f32.f16" in text
    assert "wgmma" not in text
