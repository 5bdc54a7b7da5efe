"""Fold leaves in the order of a tree, in NumPy: the oracle of every engine and kernel.

Only element-wise operations are used, never a library's sum, whose order is its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import DType, from_numpy
from tessera.core.errors.catalog import BadReduction
from tessera.core.placement.exact_sums import decode, encode
from tessera.core.placement.reduction_rules import RankReduction, ReduceOp
from tessera.core.placement.reduction_trees import Fold, ReductionTree

Elements: TypeAlias = NDArray[Any]  # of every type that there is

_Combine = Callable[[Elements, Elements], Elements]


def _largest(a: Elements, b: Elements) -> Elements:
    """Return the larger of each pair: NaN where either is, 0 of 0 and -0."""
    return np.where(a > b, a, np.where(b > a, b, np.where(a == b, _of_equals(a, b, "max"), a + b)))


def _smallest(a: Elements, b: Elements) -> Elements:
    """Return the smaller of each pair: NaN where either is, -0 of 0 and -0."""
    return np.where(a < b, a, np.where(b < a, b, np.where(a == b, _of_equals(a, b, "min"), a + b)))


def _of_equals(a: Elements, b: Elements, op: ReduceOp) -> Elements:
    """Return one of equal numbers; zeros add to 0 unless both are -0, and negated to -0 unless both are 0."""
    zero = a + b if op == "max" else -(-a + -b)
    return np.where(a == 0, zero, a)


_FLOATS: Final[dict[ReduceOp, _Combine]] = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "max": _largest, "min": _smallest,
}  # fmt: skip
_INTEGERS: Final[dict[ReduceOp, _Combine]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def combine(a: Elements, b: Elements, op: ReduceOp) -> Elements:
    """Return one step of a fold, `a` on the left, in the type that both have."""
    with np.errstate(all="ignore"):
        return _table(a.dtype)[op](a, b)


def _table(dtype: np.dtype[Any]) -> Mapping[ReduceOp, _Combine]:  # of every type that there is
    return _INTEGERS if dtype.kind in "iub" else _FLOATS


def fold_partial(parts: Sequence[Elements], fold: Fold, reduction: RankReduction) -> Elements:
    """Return a node folded of `parts`, in the accumulator's type: leaves are widened, partial nodes have it already."""
    with np.errstate(all="ignore"):
        return _folded(parts, fold, reduction)


def _folded(parts: Sequence[Elements], fold: Fold, reduction: RankReduction) -> Elements:
    accumulator = reduction.accumulator.numpy
    combined = _table(accumulator)[reduction.op]

    def folded(part: Fold) -> Elements:
        if isinstance(part, int):
            leaf = parts[part]
            return leaf if leaf.dtype is accumulator else leaf.astype(accumulator, copy=False)
        return combined(folded(part[0]), folded(part[1]))

    return folded(fold)


def widened(leaf: Elements, accumulator: DType) -> Elements:
    """Return a leaf in the type that is accumulated in."""
    with np.errstate(all="ignore"):
        return leaf.astype(accumulator.numpy, copy=False)


def at_root(value: Elements, reduction: RankReduction, leaves: int, dtype: DType | None = None) -> Elements:
    """Return the root as a result: multiplied for a mean, NaN made one, rounded once to `dtype` (None: the leaves')."""
    with np.errstate(all="ignore"):
        return _at_root(value, reduction, leaves, dtype)


def _at_root(value: Elements, reduction: RankReduction, leaves: int, dtype: DType | None = None) -> Elements:
    scale = reduction.scale(leaves)
    kind = (reduction.dtype if dtype is None else dtype).numpy
    if scale is not None:
        value = value * value.dtype.type(scale)
    if not reduction.accumulator.is_float:
        return value.astype(kind, copy=False)
    nans = value != value  # noqa: PLR0124 - NaN alone
    if nans.any():
        value = np.where(nans, value.dtype.type(np.nan), value)
    return value.astype(kind)


def reduce_leaves(leaves: Sequence[Elements], tree: ReductionTree, reduction: RankReduction) -> Elements:
    """Return the reduction of all leaves: what every rank gets.  Raises BadReduction for leaves of other types."""
    for leaf in leaves:
        if leaf.dtype is not reduction.dtype.numpy and from_numpy(leaf.dtype) != reduction.dtype:
            raise BadReduction(f"a leaf holds {leaf.dtype}, not {reduction.dtype}", hint="convert it")
    if reduction.det == "exact" and reduction.adds and reduction.dtype.is_float:
        return exact_sum(leaves, reduction)
    with np.errstate(all="ignore"):
        return _at_root(_folded(leaves, tree.leaf_fold(), reduction), reduction, tree.leaves)


def exact_sum(leaves: Sequence[Elements], reduction: RankReduction) -> Elements:
    """Return the exact sum of leaves, rounded once; of a mean, multiplied in the accumulator's type before."""
    state = encode(leaves[0])
    for leaf in leaves[1:]:
        state = state + encode(leaf)
    return exact_root(state, reduction, len(leaves))


def exact_root(state: NDArray[np.int64], reduction: RankReduction, leaves: int) -> Elements:
    """Return the result of the added states of all leaves."""
    if reduction.op != "mean":
        return decode(state, reduction.dtype)
    return at_root(decode(state, reduction.accumulator), reduction, leaves)
