"""tile-pack-floats: every code and every boundary as ml_dtypes has it, and factors of products."""

from typing import Protocol, SupportsFloat, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from support.programs import saxpy
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, fp8_e4m3, fp8_e5m2
from tessera.core.program.types import Tile
from tessera.core.tile.spec import check_tile_ir
from tessera.lowering.tile.pack_floats import FORMATS, PackFloats

BYTES = [fp8_e4m3, fp8_e5m2]
CODES = np.arange(256, dtype=np.uint8)


def converted(values: np.ndarray, source: DType, target: DType) -> np.ndarray:
    extent = len(values)
    b = Builder("cast")
    x, y, zero = b.array("x", source, extent), b.array("y", target, extent, mutable=True), b.const(0)
    tile = b.load(x, [zero], [extent])
    b.store(y, b.op("cast", [tile], Tile(target, (extent,))), [zero], [extent])
    module = lowered(b.program(), PackFloats())
    check_tile_ir(module, "test")
    assert "f8" not in str(module)
    out = np.zeros(extent, target.numpy)
    run(module, {}, values, out)
    return out


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.itemsize}")


@pytest.mark.parametrize("target", [f64, f32, f16, bf16], ids=str)
@pytest.mark.parametrize("source", BYTES, ids=str)
def test_every_code_widens(source: DType, target: DType):
    codes = CODES.view(source.numpy)
    np.testing.assert_array_equal(bits(converted(codes, source, target)), bits(codes.astype(target.numpy)))


@pytest.mark.parametrize(("source", "target"), [BYTES, BYTES[::-1]])
def test_one_format_becomes_the_other(source: DType, target: DType):
    codes = CODES.view(source.numpy)
    with np.errstate(invalid="ignore"):
        want = codes.astype(np.float32).astype(target.numpy)
    np.testing.assert_array_equal(bits(converted(codes, source, target)), bits(want))


@pytest.mark.parametrize("source", [f32, f16], ids=str)
@pytest.mark.parametrize("target", BYTES, ids=str)
def test_every_half_narrows(target: DType, source: DType):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        values = halves.astype(source.numpy)
        want = values.astype(target.numpy)
    np.testing.assert_array_equal(bits(converted(values, source, target)), bits(want))


def boundaries(target: DType) -> np.ndarray:
    """Numbers, the middles between two neighbours, and the f32 on either side of each."""
    finite = np.sort(CODES[:0x80].view(target.numpy).astype(np.float32))
    finite = finite[np.isfinite(finite)]
    beyond = np.array([2 * finite[-1] - finite[-2], 2 * finite[-1], 3e38, np.inf, np.nan, 1e-45], np.float32)
    points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, [(finite[-1] + beyond[0]) / 2], beyond])
    points = points.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        around = [points, *(np.nextafter(points, np.float32(end)) for end in (np.inf, -np.inf))]
    return np.concatenate([*around, *(-values for values in around)])


@pytest.mark.parametrize("target", BYTES, ids=str)
def test_every_boundary(target: DType):
    values = boundaries(target)
    with np.errstate(invalid="ignore"):
        want = values.astype(target.numpy)
    np.testing.assert_array_equal(bits(converted(values, f32, target)), bits(want))


@given(st.lists(st.floats(width=32), min_size=8, max_size=8), st.sampled_from(BYTES))
def test_any_f32(numbers: list[float], target: DType):
    values = np.array(numbers, np.float32)
    with np.errstate(invalid="ignore"):
        want = values.astype(target.numpy)
    np.testing.assert_array_equal(bits(converted(values, f32, target)), bits(want))


@pytest.mark.parametrize("target", BYTES, ids=str)
def test_f64_is_rounded_once(target: DType):
    points = boundaries(target).astype(np.float64)
    values = np.concatenate([points * (1 + 2.0**-40), points * (1 - 2.0**-40)])
    magnitude = np.abs(values)
    # f32 rounded towards zero with a sticky last bit, by integers: what one rounding looks at.
    down = magnitude.astype(np.float32)
    down = np.where(down.astype(np.float64) > magnitude, np.nextafter(down, np.float32(0)), down)
    inexact = np.isfinite(down) & (down.astype(np.float64) != magnitude)
    odd = (down.view(np.uint32) | inexact).view(np.float32)
    with np.errstate(invalid="ignore"):
        want = np.copysign(odd, values).astype(target.numpy)
    np.testing.assert_array_equal(bits(converted(values, f64, target)), bits(want))


def test_literals_become_codes():
    b = Builder("fill")
    y, zero = b.array("y", fp8_e5m2, 8, mutable=True), b.const(0)
    b.store(y, b.op("full", [b.const(-1.5, fp8_e5m2)], Tile(fp8_e5m2, (8,))), [zero], [8])
    out = np.zeros(8, fp8_e5m2.numpy)
    run(lowered(b.program(), PackFloats()), {}, out)
    assert (out.astype(np.float32) == -1.5).all()


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_factors_of_products(dtype: DType):
    b = Builder("product")
    x, y = b.array("x", dtype, 16, 32), b.array("y", dtype, 32, 16)
    out, zero = b.array("out", f32, 16, 16, mutable=True), b.const(0)
    factors = [b.load(x, [zero, zero], [16, 32]), b.load(y, [zero, zero], [32, 16])]
    b.store(out, b.op("dot", factors, Tile(f32, (16, 16)), exact=False), [zero, zero], [16, 16])
    kept = str(lowered(b.program(), PackFloats(products=True)))
    assert f'factors = "{"e4m3" if dtype == fp8_e4m3 else "e5m2"}"' in kept
    module = lowered(b.program(), PackFloats())
    check_tile_ir(module, "test")
    assert "factors" not in str(module)
    random = np.random.default_rng(0)
    left, right = (random.standard_normal(shape).astype(dtype.numpy) for shape in ((16, 32), (32, 16)))
    got = np.zeros((16, 16), np.float32)
    run(module, {}, left, right, got)
    np.testing.assert_allclose(got, left.astype(np.float64) @ right.astype(np.float64), rtol=1e-6, atol=1e-5)


def test_kernels_without_such_floats_stay_as_they_are():
    assert shown(saxpy(), PackFloats()) == shown(saxpy())


class FormatFacts(Protocol):
    """What `ml_dtypes.finfo` knows of a format."""

    nmant: int
    smallest_subnormal: SupportsFloat


def test_the_formats():
    for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
        info, found = cast("FormatFacts", ml_dtypes.finfo(dtype)), FORMATS[name]
        assert (found.mantissa, found.step) == (info.nmant, float(info.smallest_subnormal))
        edge = np.array(found.overflow, np.uint32).view(np.float32)[()]
        with np.errstate(invalid="ignore"):
            assert np.isfinite(edge.astype(dtype).astype(np.float32))
            assert not np.isfinite(np.nextafter(edge, np.float32(np.inf)).astype(dtype).astype(np.float32))
