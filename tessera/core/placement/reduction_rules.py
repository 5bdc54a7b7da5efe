"""Rules of deterministic reductions: operators, the type they accumulate in, what is done at the root, and `tree_id`.

1. Sums and products of floats are element-wise, rounded to nearest, the lower leaf on the left; missing leaves are
   absent, denormals are kept, and nothing is multiplied inside a tree: a mean multiplies once, at the root.
2. Floats of 16 and 8 bits are widened to f32, folded in f32, and rounded once, at the root.  Partial nodes are f32.
3. Every NaN becomes the one of `canonical_nan` at the root.
4. The largest and the smallest of numbers with a NaN is NaN, and -0 is smaller than 0.
5. Integers wrap around in their own type, so that every order gives the same bits; bits are combined as they are.

They have a version, which is part of `tree_id`: results that carry the same identifier have the same bits.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import BadReduction
from tessera.core.placement.reduction_trees import ReductionTree

RULES_VERSION: Final = 1

Determinism = Literal["fast", "run", "leaf", "exact"]
"""What a reduction over ranks promises, each what those before it do:

fast: all ranks of one call agree
run: the same bits in every run for the same number of ranks, whatever the size, the bucket or the physical placement
leaf: the same bits for every number of ranks that share the same leaves in order
exact: the same bits for every order and number of leaves: the exact sum, rounded once
"""
ReduceOp = Literal["sum", "mean", "prod", "min", "max", "and", "or", "xor"]

LEVELS: Final[tuple[Determinism, ...]] = get_args(Determinism)
OPERATORS: Final[tuple[ReduceOp, ...]] = get_args(ReduceOp)
_ARITHMETIC: Final = frozenset({"sum", "mean", "prod"})
_BITWISE: Final = frozenset({"and", "or", "xor"})
_SHORT: Final = 16
_ADDS: Final = frozenset({"sum", "mean"})


@dataclass(frozen=True, slots=True)
class RankReduction:
    """A reduction over ranks: an operator on elements of a type, accumulated in another, with a promise."""

    op: ReduceOp
    dtype: DType
    accumulator: DType
    det: Determinism = "leaf"

    @property
    def adds(self) -> bool:
        """Return whether leaves are added: a sum or a mean."""
        return self.op in _ADDS

    def scale(self, leaves: int) -> float | None:
        """Return what the root of a mean is multiplied by, None for other operators."""
        if self.op != "mean":
            return None
        kind = self.accumulator.numpy.type
        return float(kind(1) / kind(leaves))

    def tree_id(self, tree: ReductionTree) -> str:
        """Return what names the bits of results: leaves, radices, operator, accumulator and the rules' version."""
        if self.det == "exact":
            return tree_id(ReductionTree(1, ()), self, exact=True)
        return tree_id(tree, self)


def tree_id(tree: ReductionTree, reduction: RankReduction, *, exact: bool = False) -> str:
    """Return 16 hexadecimal digits that name the bits of a reduction, to be stored with results and checkpoints."""
    order = "exact" if exact else f"V={tree.leaves} radices={','.join(map(str, tree.radices))}"
    text = f"rules={RULES_VERSION} {order} op={reduction.op} acc={reduction.accumulator} dtype={reduction.dtype}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reduction(op: str, dtype: DType, det: str = "leaf") -> RankReduction:
    """Return a reduction by its names.

    Raises BadReduction for an operator or a promise that there is not, and one that these elements do not have.
    """
    if op not in OPERATORS:
        raise BadReduction(f"there is no operator {op!r} over ranks", hint=f"choose from {', '.join(OPERATORS)}")
    if det not in LEVELS:
        raise BadReduction(f"there is no promise det={det!r}", hint=f"choose from {', '.join(LEVELS)}")
    if op in _BITWISE and dtype.is_float:
        raise BadReduction(f"{op} combines bits, and the elements are {dtype}", hint="give integers or bool")
    if dtype == dtypes.boolean and op in _ARITHMETIC:
        raise BadReduction(f"the {op} of bool over ranks", hint='cast to an integer, or take op="or" or op="and"')
    if op == "mean" and not dtype.is_float:
        raise BadReduction(f"the mean of {dtype} over ranks", hint="cast to a float, or take the sum")
    if det == "exact" and op == "prod" and dtype.is_float:
        raise BadReduction("products of floats are not computed exactly", hint='take det="leaf"')
    return RankReduction(op, dtype, _accumulator(op, dtype), det)


def _accumulator(op: ReduceOp, dtype: DType) -> DType:
    """Return the type that partial nodes have."""
    widened = dtype.is_float and dtype.bits <= _SHORT and op in _ARITHMETIC
    return dtypes.f32 if widened or dtype.is_storage else dtype


def canonical_nan(dtype: DType) -> int:
    """Return the bits of the one NaN of a float type."""
    return int(np.array(np.nan, dtypes.f32.numpy).astype(dtype.numpy).view(f"u{dtype.bytes}"))
