"""Exact products: the bits of the interpreter, whatever the storage order and the shape of the tiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda.compare import agree
from support.interpret_programs import Writer
from support.product_programs import matrix_product
from support.simulate import compile_cuda, ptx_of
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.layouts import bank_conflicts, register_blocks
from tessera.core.program.program import Program
from tessera.core.program.types import Tile


def operands(shape: tuple[int, int, int], turned: tuple[bool, bool]) -> list[np.ndarray]:
    m, n, k = shape
    random = np.random.default_rng(sum(shape))
    left, right = (random.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    stored = [np.ascontiguousarray(x.T) if flag else x for x, flag in zip((left, right), turned, strict=True)]
    return [*stored, np.full((m, n), np.nan, np.float32)]


@settings(deadline=None, max_examples=6)
@given(
    st.sampled_from([8, 16, 32]), st.sampled_from([8, 16, 64]), st.sampled_from([8, 32, 64]),
    st.tuples(st.booleans(), st.booleans()), st.booleans(),
)  # fmt: skip
def test_products_in_every_storage_order(rows: int, columns: int, step: int, turned: tuple[bool, bool], aligned: bool):
    program = matrix_product((rows, columns, step), f32, turned=turned, aligned=aligned)
    shape = (20, 28, 36) if aligned else (19, 27, 35)
    artifact, _ = agree(program, operands(shape, turned), arch="sm_80")
    assert "fma.rn.f32" in ptx_of(artifact)


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_however_warps_share_the_columns_the_bits_are_the_same(columns: int):
    program = matrix_product((32, 64, 16), f32, turned=(False, True), num_warps=4, warp_columns=columns)
    agree(program, operands((36, 68, 20), (False, True)), arch="sm_80")


def test_factors_of_tf32_are_rounded_when_they_are_read():
    """Of products that are too small for the tensor cores: the interpreter's bits."""
    program = matrix_product((8, 8, 8), f32, turned=(False, True), compute="tf32")
    artifact, _ = agree(program, operands((20, 28, 36), (False, True)), arch="sm_80")
    assert "mma.sync" not in ptx_of(artifact)


def exact(dtype: DType) -> Program:
    """out = a b of 16-bit floats, one rounding a step."""
    b = Writer("exact")
    a, w = b.array("a", dtype, 16, 32), b.array("b", dtype, 32, 16)
    out = b.array("out", f32, 16, 16, mutable=True)
    zero = b.const(0)
    tiles = (b.load(a, [zero, zero], [16, 32]), b.load(w, [zero, zero], [32, 16]))
    b.store(out, b.op("dot", tiles, Tile(f32, (16, 16)), "product", exact=True), [zero, zero], [16, 16])
    return b.program()


@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_exact_products_of_short_floats(dtype: DType):
    random = np.random.default_rng(3)
    a, w = (random.standard_normal(s).astype(dtype.numpy) for s in ((16, 32), (32, 16)))
    artifact, _ = agree(exact(dtype), [a, w, np.full((16, 16), np.nan, np.float32)], arch="sm_80")
    assert "mma.sync" not in ptx_of(artifact)


def test_factors_that_are_computed():
    """Both factors are parked in shared memory, side by side."""
    b = Writer("computed")
    a, out = b.array("a", f32, 16, 16), b.array("out", f32, 16, 16, mutable=True)
    zero = b.const(0)
    tile = b.load(a, [zero, zero], [16, 16])
    double = b.value("add", tile, tile)
    b.store(out, b.dot(double, b.value("mul", double, tile)), [zero, zero], [16, 16])
    random = np.random.default_rng(5)
    agree(
        b.program(), [random.standard_normal((16, 16)).astype(np.float32), np.zeros((16, 16), np.float32)], arch="sm_80"
    )


@pytest.mark.parametrize(("arch", "lanes"), [("sm_80", 256), ("sm_90a", 384)])
def test_large_tiles_do_not_spill(arch: str, lanes: int):
    artifact = compile_cuda(matrix_product((128, 128, 16), f32), arch).artifact
    assert artifact.resources.spill_bytes == 0
    assert artifact.resources.stack_bytes == 0
    assert artifact.launch.lanes_per_group == lanes


def test_reads_have_no_bank_conflicts():
    """Of rows of 128 bytes, swizzled: four rows or four units of 16 bytes for each half warp."""
    layout = register_blocks((128, 128), 3, 1, (False, True))
    for axis, size in ((0, 16), (1, 16)):
        addresses: list[int] = []
        for lane in range(32):
            row, column = divmod(layout.element(0, lane), 128)
            # The left factor's row is read along K, at K = 0; the right one's, K = 0, along columns.
            addresses.append(row * 128 + (row % 8) * 16 if axis == 0 else column * 4 % 128)
        assert bank_conflicts(addresses, size) == 1
        assert all(len(set(addresses[half : half + 16])) == 4 for half in (0, 16))
