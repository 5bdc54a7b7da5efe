"""The oracle of reductions over ranks: written-out folds, special values, and every deal of the same leaves."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import BadReduction
from tessera.core.placement.fold_plans import fold_plan, shares_of
from tessera.core.placement.fold_reference import at_root, combine, fold_partial, reduce_leaves
from tessera.core.placement.reduction_rules import OPERATORS, canonical_nan, reduction
from tessera.core.placement.reduction_trees import ReductionTree

f32 = np.float32


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def leaves(dtype: DType, count: int, elements: int, seed: int = 0) -> list[np.ndarray]:
    """Arbitrary bits: every number there is, infinities, denormals and NaNs with payloads."""
    rng = np.random.default_rng(seed)
    if dtype == dtypes.boolean:
        return list(rng.integers(0, 2, (count, elements)).astype(bool))
    found = rng.integers(0, 1 << dtype.bits, (count, elements), dtype=f"u{dtype.bytes}").view(dtype.numpy)
    if dtype.is_float and elements > 8:  # sums that are finite
        half = elements // 2
        found[:, :half] = (rng.standard_normal((count, half)) * 2.0 ** rng.integers(-9, 9, (count, half))).astype(
            found.dtype
        )
    return list(found)


def test_a_binary_tree_written_out():
    x = leaves(dtypes.f32, 5, 64)
    with np.errstate(all="ignore"):
        expected = ((x[0] + x[1]) + (x[2] + x[3])) + x[4]
    found = reduce_leaves(x, ReductionTree.binary(5), reduction("sum", dtypes.f32))
    same = ~np.isnan(expected)
    assert np.array_equal(bits(found)[same], bits(expected)[same])
    assert set(bits(found)[~same]) <= {0x7FC00000}


def test_short_floats_are_rounded_once():
    x = [np.array([256.0], ml_dtypes.bfloat16), *[np.array([1.0], ml_dtypes.bfloat16)] * 4]
    assert float(reduce_leaves(x, ReductionTree.binary(5), reduction("sum", dtypes.bf16))[0]) == 260.0
    assert float(np.add(x[0], x[1])[0]) == 256.0  # as every step in bf16 would be


def test_a_mean_is_multiplied_once():
    x = [np.array([1.0], f32), np.array([1.0], f32), np.array([2.0], f32)]
    found = reduce_leaves(x, ReductionTree.binary(3), reduction("mean", dtypes.f32))
    assert found[0] == f32(4.0) * (f32(1) / f32(3))


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("max", -0.0, 0.0, 0.0), ("max", 0.0, -0.0, 0.0), ("max", -0.0, -0.0, -0.0), ("max", 2.0, math.nan, math.nan),
        ("min", -0.0, 0.0, -0.0), ("min", 0.0, -0.0, -0.0), ("min", 0.0, 0.0, 0.0), ("min", math.nan, 2.0, math.nan),
        ("max", -math.inf, -3.0, -3.0), ("min", math.inf, 3.0, 3.0), ("sum", -0.0, -0.0, -0.0), ("sum", 1e-45, 1e-45, 3e-45),
    ],
)  # fmt: skip
def test_special_values(op: str, a: float, b: float, expected: float):
    pair = [np.array([a], f32), np.array([b], f32)]
    found = reduce_leaves(pair, ReductionTree.binary(2), reduction(op, dtypes.f32))
    assert bits(found)[0] == bits(np.array([expected], f32))[0]


def test_payloads_of_nan_do_not_pass():
    payloads = np.array([0x7FC00123, 0xFFC00001, 0x7F800001], np.uint32).view(f32)
    for count in (1, 2):
        found = reduce_leaves([payloads] * count, ReductionTree.binary(count), reduction("sum", dtypes.f32))
        assert set(bits(found)) == {canonical_nan(dtypes.f32)}


def test_integers_wrap_around():
    x = [np.array([200], np.uint8), np.array([100], np.uint8), np.array([7], np.uint8)]
    assert reduce_leaves(x, ReductionTree.binary(3), reduction("sum", dtypes.u8))[0] == 51
    assert reduce_leaves(x, ReductionTree.binary(3), reduction("xor", dtypes.u8))[0] == 200 ^ 100 ^ 7
    assert reduce_leaves(x, ReductionTree.binary(3), reduction("max", dtypes.u8))[0] == 200


ALLOWED = [
    (op, dtype)
    for op in OPERATORS
    for dtype in dtypes.ALL
    if not (op in ("and", "or", "xor") and dtype.is_float)
    and not (op in ("sum", "mean", "prod") and dtype == dtypes.boolean)
    and not (op == "mean" and not dtype.is_float)
]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(ALLOWED), st.lists(st.integers(0, 5), min_size=1, max_size=7), st.integers(1, 40), st.booleans())
def test_however_leaves_are_dealt_the_bits_are_the_same(
    case: tuple[str, DType], counts: list[int], elements: int, chain: bool
):
    op, dtype = case
    counts = [*counts, 1]
    total = sum(counts)
    tree = ReductionTree.of(total, "chain" if chain else "binary_tree")
    what = reduction(op, dtype)
    x = leaves(dtype, total, elements, total)
    plan = fold_plan(tree, shares_of(counts))
    partials = [
        fold_partial(x[first:stop], fold, what)
        for (first, stop), folds in zip(plan.shares, plan.local, strict=True)
        for fold in folds
    ]
    assert all(partial.dtype == what.accumulator.numpy for partial in partials)
    found = at_root(fold_partial(partials, plan.final, what), what, total)
    expected = reduce_leaves(x, tree, what)
    assert found.dtype == dtype.numpy
    assert np.array_equal(bits(found), bits(expected))


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16, dtypes.f64], ids=repr)
def test_exact_sums_do_not_depend_on_order(dtype: DType):
    x = leaves(dtype, 24, 64)
    what = reduction("sum", dtype, "exact")
    forward = reduce_leaves(x, ReductionTree.binary(24), what)
    backward = reduce_leaves(x[::-1], ReductionTree(24, (24,)), what)
    assert np.array_equal(bits(forward), bits(backward))
    mean = reduce_leaves(x, ReductionTree.binary(24), reduction("mean", dtype, "exact"))
    assert np.isnan(mean.astype(np.float64)).tolist() == np.isnan(forward.astype(np.float64)).tolist()


def test_leaves_of_another_type_are_refused():
    with pytest.raises(BadReduction, match="a leaf holds float64, not f32"):
        reduce_leaves([np.zeros(1)], ReductionTree.binary(1), reduction("sum", dtypes.f32))


def test_one_step():
    assert combine(np.array([3]), np.array([4]), "prod")[0] == 12
