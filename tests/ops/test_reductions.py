"""Reductions: the bits of `tree_sum`, and NumPy's largest and smallest, along any axis and in any number of blocks."""

from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.library import normal
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import BadAxis, OperandMismatch
from tessera.core.settings import overridden
from tessera.core.targets import GENERATIONS
from tessera.ops import reduce_max, reduce_min, reduce_sum
from tessera.ops.reductions import prepare_reduce
from tessera.performance.machine_kind import MachineKind

bf16 = ml_dtypes.bfloat16
DTYPES = st.sampled_from([np.float32, np.float64, np.float16, bf16, np.int32, np.uint8, np.bool_])


def exact_sum(x: np.ndarray, axis: int) -> np.ndarray:
    if x.dtype.kind in "biu":
        return x.sum(axis=axis, dtype=np.int64)
    wide = x.astype(np.float32) if x.dtype.type in (np.float16, bf16) else x
    with np.errstate(over="ignore"):
        return tree_sum(wide, axis).astype(x.dtype)


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.integers(0, 2), st.booleans(), DTYPES)
@settings(max_examples=25)
def test_small_ones(shape: list[int], axis: int, keepdims: bool, dtype: type[np.generic]):
    axis %= len(shape)
    x = (normal(*shape) * 50).astype(np.int64).astype(dtype)
    wide = x.astype(np.float64)
    with overridden(target="interpret"):
        got = reduce_sum(x, axis, keepdims=keepdims)
        want = exact_sum(x, axis)
        same(got, np.expand_dims(want, axis) if keepdims else np.atleast_1d(want))
        for ours, numpy in ((reduce_max, np.max), (reduce_min, np.min)):
            expected = np.atleast_1d(numpy(wide, axis=axis, keepdims=keepdims)).astype(dtype)
            same(ours(x, axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((33000,), 0), ((2, 9001), 1), ((2, 9001, 3), 1), ((300, 9000), 1), ((9000, 130), 0)]
)
def test_long_ones(target: str, shape: tuple[int, ...], axis: int):
    with overridden(target=target):
        for dtype in (np.float32, bf16):
            x = normal(*shape, dtype=dtype)
            same(reduce_sum(x, axis), np.atleast_1d(exact_sum(x, axis)))
            same(reduce_max(x, axis), np.atleast_1d(x.astype(np.float32).max(axis=axis).astype(dtype)))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32])
def test_sums_of_integers_have_room(target: str, dtype: type[np.integer]):
    """As in NumPy; where the result is as short as what is added, it wraps around."""
    largest = np.iinfo(dtype).max
    for shape, axis in (((300,), 0), ((20000,), 0), ((2, 9001, 3), 1)):
        x = np.full(shape, largest, dtype)
        with overridden(target=target):
            same(reduce_sum(x, axis), np.atleast_1d(x.sum(axis=axis, dtype=np.int64)))
            floats = reduce_sum(x, axis, dtype="f64")
            np.testing.assert_array_equal(floats, np.atleast_1d(x.sum(axis=axis, dtype=np.int64).astype(np.float64)))
            short = np.zeros(np.atleast_1d(floats).shape, dtype)
            reduce_sum(x, axis, short)
            np.testing.assert_array_equal(short, np.atleast_1d(x.sum(axis=axis, dtype=dtype)))
            same(reduce_max(x, axis), np.atleast_1d(x.max(axis=axis)))


def test_more_blocks_than_one_launch_takes():
    x = normal(4096 * 4096 + 5)
    prepared = prepare_reduce("sum", x)
    assert len(prepared.launches) == 3
    same(prepared.run(), tree_sum(x, 0).reshape(1))


@pytest.mark.parametrize("block", [8192, 16384])
@pytest.mark.parametrize("shape", [(70000,), (16385,), (3, 20000)])
def test_blocks_of_gpus(shape: tuple[int, ...], block: int):
    """Larger blocks, in fewer launches, and the same bits."""
    for dtype in (np.float32, bf16, np.int32):
        x = (normal(*shape) * 50).astype(dtype)
        with (
            mock.patch("tessera.ops.reductions.machine_of", return_value=MachineKind(GENERATIONS["sm_90"])),
            mock.patch("tessera.performance.schedules.block_of_row", return_value=block),
        ):
            prepared = prepare_reduce("sum", x, -1)
            assert len(prepared.launches) == 2
            same(prepared.run(), np.atleast_1d(exact_sum(x, len(shape) - 1)))
            same(reduce_max(x, -1), np.atleast_1d(x.max(axis=-1)))


@pytest.mark.parametrize(("shape", "launches"), [((140, 4099, 3), 1), ((140, 20000, 3), 2)])
def test_tiles_that_are_too_large_for_a_compiler_are_cut(shape: tuple[int, int, int], launches: int):
    """Columns of a whole array or in blocks, of any width: the same bits."""
    x = normal(*shape)
    machine = MachineKind(GENERATIONS["sm_90"], tile_elements=1 << 16)
    with mock.patch("tessera.ops.reductions.machine_of", return_value=machine):
        prepared = prepare_reduce("sum", x, 1)
    assert len(prepared.launches) == launches
    same(prepared.run(), exact_sum(x, 1))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16])
def test_the_bits_do_not_depend_on_how_a_long_middle_axis_is_cut(kind: str, dtype: type[np.generic]):
    """On a GPU whose compiler takes no large tiles, i32 is added up in i64, two registers an element."""
    x = (normal(2, 8193, 20) * 50).astype(dtype)
    machine = MachineKind(GENERATIONS["sm_90"], tile_elements=1 << 16)
    with mock.patch("tessera.ops.reductions.machine_of", return_value=machine):
        prepared = prepare_reduce(kind, x, 1)
    wide = dtype == np.float64 or (dtype == np.int32 and kind == "sum")
    assert prepared.launches[0].kernel.options.constants["COLUMNS"] == (8 if wide else 16)
    same(prepared.run(), prepare_reduce(kind, x, 1).run())


def test_zeros_keep_their_signs():
    for shape in ((10,), (9000,)):
        for zero in (0.0, -0.0):
            x = np.full(shape, zero, np.float32)
            same(reduce_sum(x), np.full(1, zero, np.float32))


def test_nan_is_the_largest_and_the_smallest():
    x = normal(9000)
    x[8999] = np.nan
    assert np.isnan(reduce_max(x))[0]
    assert np.isnan(reduce_min(x))[0]


def test_everything_and_other_dtypes():
    x = normal(5, 6, 7, dtype=bf16)
    same(reduce_sum(x, dtype="f32"), tree_sum(x.astype(np.float32).ravel(), 0).reshape(1))
    assert reduce_sum(x, keepdims=True).shape == (1, 1, 1)
    out = np.zeros((5, 7), np.float32)
    assert reduce_sum(x, 1, out) is out
    same(out, tree_sum(x.astype(np.float32), 1))
    long = normal(9000, dtype=bf16)
    same(reduce_sum(long, dtype="f32"), tree_sum(long.astype(np.float32), 0).reshape(1))


def test_what_does_not_fit():
    with pytest.raises(BadAxis, match=r"x has no axis \(0, 1\)"):
        reduce_sum(normal(3, 4), (0, 1))  # type: ignore[arg-type]
    with pytest.raises(BadAxis, match="x has no axis 2"):
        reduce_sum(normal(3, 4), 2)
    with pytest.raises(OperandMismatch, match="nothing to reduce"):
        reduce_max(normal(3, 0), 1)
    with pytest.raises(OperandMismatch, match="out is 4, and the result 3"):
        reduce_sum(normal(3, 4), 1, np.zeros(4, np.float32))
