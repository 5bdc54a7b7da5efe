"""Fold contributions in leaf order, whichever devices hold them: as `op.all_reduce` does with a binary tree."""

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import boolean, from_numpy
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree

Values = NDArray[Any]  # of every type that has a sum


def fold_leaves(leaves: Sequence[Values], op: str = "sum") -> Values:
    """Return the fold of arrays of one shape and dtype, leaf 0 first; `op`: sum, max or min.

    A sum of bools is whether any holds.  The leaves stay as they are, and the result is an array of its own.
    """
    kind = from_numpy(leaves[0].dtype)
    assert kind is not None, "shards have a type of Tessera's"
    named = {"sum": "or", "max": "or", "min": "and"}[op] if kind is boolean else op
    return np.array(reduce_leaves(leaves, ReductionTree.binary(len(leaves)), reduction(named, kind)))


def identity(op: str, dtype: np.dtype) -> object:
    """Return what changes nothing in a fold: -0.0, infinities, and the ends of integers."""
    kind = from_numpy(dtype)
    floating = kind is not None and kind.is_float
    if op == "sum":
        return -0.0 if floating else 0
    sign = -1 if op == "max" else 1
    if floating:
        if np.isinf(np.asarray(np.inf).astype(dtype)):
            return sign * np.inf
        largest = cast("float", ml_dtypes.finfo(dtype).max)  # pyright: ignore[reportUnknownMemberType]
        return sign * float(largest)
    if dtype == np.bool_:
        return op == "min"
    ends = np.iinfo(dtype)
    return ends.min if op == "max" else ends.max
