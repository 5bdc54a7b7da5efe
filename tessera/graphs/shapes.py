"""Axes, extents and dtypes of captured operators: the rules that need no tracer."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index as index_of

from tessera.core.base.dtypes import DType, computed_in, f32, i64, u64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.build import broadcast_shape


def working(dtype: DType) -> DType:
    """Return the dtype that values of `dtype` are computed in: f32 for shorter floats."""
    return f32 if dtype.is_float and dtype.bits < f32.bits else computed_in(dtype)


def summed(dtype: DType) -> DType:
    """Return the dtype of a sum, as NumPy's: the widest integers for integers and bools, floats as they are."""
    if dtype.is_float:
        return dtype
    return u64 if dtype.kind == "uint" else i64


def flat(values: Sequence[int | Sequence[int]]) -> list[int]:
    """Return extents or axes that are given one by one, or as one sequence."""
    if len(values) == 1 and not isinstance(values[0], int):
        return list(values[0])
    return [value for value in values if isinstance(value, int)]


def axes_of(ndim: int, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return axes as rising numbers from 0; None stands for all.

    Raises OperandMismatch for one that is not there, or twice.
    """
    return tuple(sorted(range(ndim) if axis is None else axes_in_order(ndim, axis)))


def axes_in_order(ndim: int, axis: int | Sequence[int], *, repeated: bool = False) -> tuple[int, ...]:
    """Return axes as numbers from 0, in the order in which they are named.

    repeated: whether an axis may be named twice
    Raises OperandMismatch for one that is not there, for one that is named twice, and for what is no integer.
    """
    numbers = axis if isinstance(axis, Sequence) else [axis]
    axes = [axis_of(ndim, number) for number in numbers]
    if len(set(axes)) != len(axes) and not repeated:
        raise OperandMismatch(f"{tuple(numbers)} names an axis twice")
    return tuple(axes)


def axis_of(ndim: int, axis: int) -> int:
    """Return one axis as a number from 0.  Raises OperandMismatch for one that is not there, and for no integer."""
    try:
        number = index_of(axis)
    except TypeError:
        raise OperandMismatch(f"axis={axis!r} is not one axis", hint="give an integer") from None
    if not -ndim <= number < ndim:
        raise OperandMismatch(f"an array of {ndim} axes has no axis {number}")
    return number % ndim


@dataclass(frozen=True, slots=True)
class MatmulLabels:
    """A matrix product as a contraction.

    kept: the axes of each operand that are left, without batch axes of extent 1 that are repeated
    labels: of those; result: the labels of the result
    """

    kept: tuple[tuple[int, ...], tuple[int, ...]]
    labels: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]


def matmul_labels(x: Sequence[int], y: Sequence[int]) -> MatmulLabels:
    """Return the labels of `x @ y` by the operands' shapes, which have NumPy's meaning.

    Raises OperandMismatch for shapes that have no product.
    """
    if not x or not y:
        raise OperandMismatch("a number is no matrix", hint="multiply it with *")
    if x[-1] != y[-2 if len(y) > 1 else 0]:
        raise OperandMismatch(
            f"{tuple(x)} and {tuple(y)} have no inner extent in common",
            hint="the last axis of a and the last but one of b must be equal; op.matmul(a, b.T) turns b",
        )
    try:
        batch = broadcast_shape([x[:-2], y[:-2]])
    except ValueError as wrong:
        raise OperandMismatch(f"the batches of {tuple(x)} and {tuple(y)} do not broadcast") from wrong
    rank = len(batch)
    first, second = _batched(x, batch), _batched(y, batch)
    left = (*(label for _, label in first), *([rank] if len(x) > 1 else []), rank + 2)
    right = (*(label for _, label in second), rank + 2, *([rank + 1] if len(y) > 1 else []))
    result = tuple(label for label in range(rank + 2) if label in {*left, *right})
    kept = tuple((*(axis for axis, _ in mine), *range(max(len(shape) - 2, 0), len(shape)))
                 for mine, shape in ((first, x), (second, y)))  # fmt: skip
    return MatmulLabels((kept[0], kept[1]), (left, right), result)


def _batched(shape: Sequence[int], batch: Sequence[int]) -> list[tuple[int, int]]:
    """Return the batch axes of an operand that are not repeated, each with its label."""
    mine = shape[:-2]
    first = len(batch) - len(mine)
    return [(axis, first + axis) for axis, extent in enumerate(mine) if extent != 1 or batch[first + axis] == 1]
