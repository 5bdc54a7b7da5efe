"""Folds in leaf order: the tree, special values, narrow floats, and what changes nothing."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from tessera.core.base.dtypes import ALL
from tessera.runtime.shards.fold_leaves import fold_leaves, identity


def test_neighbours_first_and_a_lone_last_one_passes_through():
    leaves = [np.array([value], np.float32) for value in (1e8, 1.0, -1e8, 1.0, 0.5)]
    a, b, c, d, e = (leaf[0] for leaf in leaves)
    assert fold_leaves(leaves)[0] == ((a + b) + (c + d)) + e
    assert fold_leaves(leaves[:3])[0] == (a + b) + c


def test_short_floats_are_rounded_once():
    for dtype in (ml_dtypes.bfloat16, np.float16):
        leaves = [np.full(3, value, dtype) for value in (1.0, 2**-12, 2**-12, 2**-12)]
        want = np.float32(1 + 3 * 2**-12).astype(dtype)
        np.testing.assert_array_equal(fold_leaves(leaves), np.full(3, want))
        assert fold_leaves(leaves).dtype == dtype


def test_special_values():
    inf, nan = np.float32(np.inf), np.array([0x7FC00002], np.uint32).view(np.float32)
    found = fold_leaves(
        [np.array([inf, nan[0], -0.0, 1e-45], np.float32), np.array([-inf, 1, -0.0, 1e-45], np.float32)]
    )
    assert found.view(np.uint32).tolist() == [0x7FC00000, 0x7FC00000, 0x80000000, 2]
    zeros = [np.array([0.0, -0.0, np.nan], np.float32), np.array([-0.0, 0.0, 1], np.float32)]
    assert np.signbit(fold_leaves(zeros, "max"))[:2].tolist() == [False, False]
    assert np.signbit(fold_leaves(zeros, "min"))[:2].tolist() == [True, True]
    assert np.isnan(fold_leaves(zeros, "max")[2])


@pytest.mark.parametrize("dtype", [each.numpy for each in ALL], ids=str)
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_the_identity_changes_nothing(op: str, dtype: DTypeLike):
    values = (
        np.array([0, 1, 1, 0], dtype) if np.dtype(dtype) == bool else np.array([-0.0, 1.5, 100.0, 3.0]).astype(dtype)
    )
    nothing = np.full(4, identity(op, np.dtype(dtype)), dtype)
    for leaves in ([values, nothing], [nothing, values], [nothing, values, nothing]):
        found = fold_leaves(leaves, op)
        assert found.tobytes() == values.tobytes()


def test_leaves_stay_and_scalars_are_arrays():
    leaf = np.ones((), np.float32)
    found = fold_leaves([leaf, leaf])
    assert (found.shape, float(found), float(leaf)) == ((), 2.0, 1.0)
    alone = fold_leaves([leaf])
    alone[...] = 3
    assert float(leaf) == 1.0
