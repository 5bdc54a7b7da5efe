"""Functional updates, as JAX has them: `x.at[2:4].set(0.0)` is x with other elements in one place.

before: `x[i, 2:4] += v`, which a value without numbers cannot do
after:  `x = x.at[i, 2:4].add(v)`: x outside the indexed part, x + v inside it
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final, Generic, Self, TypeVar

from tessera.core.base.dtypes import DType, boolean, i64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine
from tessera.graphs.operands.abstract_value import AbstractValue
from tessera.graphs.operands.indexing import Subscript, linear_index, subscript_of
from tessera.graphs.operands.numbers import range_of

_PARTS: Final = "update the part: y = x[:, 2:4], then x.at[:, 2:4].set(y.at[i].set(v))"


class AbstractArray(AbstractValue):
    """A value with the part of NumPy's interface that follows from its shape, of which updated ones are made."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """The element type."""

    @abstractmethod
    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in row-major order in another shape."""

    @abstractmethod
    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Permute the axes."""

    @abstractmethod
    def astype(self, dtype: DType | str) -> Self:
        """Convert to another element type."""

    @abstractmethod
    def max(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Self:
        """Return the greatest along axes, or of everything."""

    @abstractmethod
    def min(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Self:
        """Return the least along axes, or of everything."""

    @abstractmethod
    def __getitem__(self, index: object) -> Self: ...

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise TypeError("a number has no elements")
        return map(self.__getitem__, range(self.shape[0]))

    @abstractmethod
    def updated_with(self, new: object) -> Self:
        """Return what is written into this value, in its dtype.  Raises OperandMismatch for floats into integers."""

    @abstractmethod
    def index_values(self, entry: object, size: int) -> Self:
        """Return an entry of a subscript as integers of an axis."""

    @abstractmethod
    def iota(self, extent: int) -> Self:
        """Return 0, 1, 2, ..."""

    @abstractmethod
    def chosen(self, condition: object, left: object, right: object) -> Self:
        """Return one of two, element by element."""

    @abstractmethod
    def picked(self, index: object, axis: int) -> Self:
        """Return the elements at indices along an axis, 0 for -1."""

    @abstractmethod
    def summed_at(self, index: object, extent: int, axis: int) -> Self:
        """Return the sums of the elements that belong to each index along an axis."""

    @property
    def at(self) -> "At[Self]":
        """Places of elements: `x.at[i]`, see `Update`."""
        return At(self)


T = TypeVar("T", bound=AbstractArray)


@dataclass(frozen=True, slots=True)
class At(Generic[T]):
    """`x.at`."""

    value: T

    def __getitem__(self, index: object) -> "Update[T]":
        return Update(self.value, index)


class Update(Generic[T]):
    """`x.at[index]`: makes new values of x, which stays as it is.

    Indices are as in `x[index]`.  Where an index comes twice, `set` takes the last element, the others take all.
    Indices outside change nothing, where they are not refused: see `index_bounds`.
    """

    def __init__(self, value: T, index: object) -> None:
        self._value, self._index = value, index

    def get(self) -> T:
        """Return the elements themselves: `x[index]`."""
        return self._value[self._index]

    def set(self, new: object) -> T:
        """Return x with `new` in this place."""
        return self._updated("set", new)

    def add(self, new: object) -> T:
        """Return x with `new` added in this place."""
        return self._updated("add", new)

    def multiply(self, new: object) -> T:
        """Return x multiplied by `new` in this place; not for index arrays."""
        return self._updated("mul", new)

    def max(self, new: object) -> T:
        """Return the greater of x and `new` in this place."""
        return self._updated("max", new)

    def min(self, new: object) -> T:
        """Return the lesser of x and `new` in this place."""
        return self._updated("min", new)

    def _updated(self, kind: str, new: object) -> T:
        x = self._value
        taken = subscript_of(self._index, x.shape)
        sizes = [taken.view.shape[axis] for axis in taken.axes]
        arrays = [x.index_values(each, size) for each, size in zip(taken.arrays, sizes, strict=True)]
        if any(array.shape for array in arrays):
            return _scattered(x, kind, taken, arrays, x.updated_with(new))
        return _masked(x, kind, taken, arrays, x.updated_with(new))


def _combined(kind: str, old: T, new: T) -> T:
    return new if kind == "set" else old.binary(kind, old, new)


def _broadcast_rank(new: T, shape: Sequence[int]) -> T:
    """Return `new` with as many axes as `shape`.  Raises OperandMismatch where it does not broadcast to it."""
    own = (1,) * (len(shape) - len(new.shape)) + new.shape
    if len(own) != len(shape) or any(a not in (1, b) for a, b in zip(own, shape, strict=True)):
        raise OperandMismatch(f"{new.shape} does not broadcast to the {tuple(shape)} elements that are updated")
    return new.reshape(*own)


# Integers and slices: a mask, and the new elements spread to where they belong


def _masked(x: T, kind: str, taken: Subscript, numbers: Sequence[T], new: T) -> T:
    dims = [extent for axis, extent in enumerate(taken.view.shape) if axis not in taken.axes]
    new = _broadcast_rank(new, dims)
    places = iter(zip(new.shape, range(len(dims)), strict=True))
    extents = {axis: next(places)[0] for axis in range(len(taken.view.shape)) if axis not in taken.axes}
    dynamic = dict(zip(taken.axes, numbers, strict=True))
    spread = new.reshape(*(extents.get(_dim(affine), 1) for affine in taken.view.axes))
    mask: T | None = None
    for axis, affine in enumerate(taken.view.axes):
        size, dim = x.shape[axis], _dim(affine)
        coordinate = x.iota(size)
        if dim in dynamic:
            index = dynamic[dim].astype(i64)
            inside = coordinate.compare("eq", index + (index < 0) * size)
        elif dim < 0:
            inside = coordinate.compare("eq", affine.constant)
        else:
            step, count = affine.terms[0].scale, taken.view.shape[dim]
            if (affine.constant, step, count) == (0, 1, size):
                continue
            source, inside = _inverse(coordinate, affine.constant, step, count)
            if spread.shape[axis] != 1:
                spread = spread.picked(x.chosen(inside, source, -1), axis)
        inside = inside.reshape(*(size if other == axis else 1 for other in range(len(x.shape))))
        mask = inside if mask is None else mask & inside
    combined = _combined(kind, x, spread)
    return x.chosen(mask, combined, x) if mask is not None else x.chosen(x.iota(1).reshape(()) == 0, combined, x)


def _dim(affine: Affine) -> int:
    """Return the axis of the result that an axis of x becomes, -1 for an integer."""
    return affine.terms[0].axis if affine.terms else -1


def _inverse(coordinate: T, start: int, step: int, count: int) -> tuple[T, T]:
    """Return which element of a slice each place of an axis is, and whether it is one."""
    distance = coordinate - start if step > 0 else start - coordinate
    number = distance // abs(step)
    inside = (number >= 0) & (number < count)
    return number, inside if abs(step) == 1 else inside & (distance % abs(step)).compare("eq", 0)


# Index arrays: what belongs to each element of the indexed axes


def _scattered(x: T, kind: str, taken: Subscript, arrays: Sequence[T], new: T) -> T:
    dynamic = dict(zip(taken.axes, arrays, strict=True))
    indexed = [axis for axis, affine in enumerate(taken.view.axes) if _dim(affine) < 0 or _dim(affine) in dynamic]
    others = [axis for axis in range(len(x.shape)) if axis not in indexed]
    unsliced = all((taken.view.axes[a].constant, taken.view.axes[a].terms[0].scale) == (0, 1) for a in others)
    extents = [taken.view.shape[_dim(taken.view.axes[axis])] for axis in others]
    if (
        not unsliced
        or extents != [x.shape[axis] for axis in others]
        or len(taken.view.shape) > len(others) + len(taken.axes)
    ):
        raise OperandMismatch("index arrays are updated along whole axes only", hint=_PARTS)
    picked = [
        dynamic[_dim(affine)] if affine.terms else x.iota(1).reshape(()) + affine.constant
        for affine in (taken.view.axes[axis] for axis in indexed)
    ]
    sizes = [x.shape[axis] for axis in indexed]
    number = linear_index([affine.astype(i64) for affine in picked], sizes)
    merged_axis = 0 if taken.first else indexed[0]
    order = (*others[:merged_axis], *indexed, *others[merged_axis:])
    before, after = [x.shape[a] for a in others[:merged_axis]], [x.shape[a] for a in others[merged_axis:]]
    old = x.transpose(*order).reshape(*before, prod(sizes), *after)
    count = prod(number.shape)
    full = _broadcast_rank(new, (*before, *number.shape, *after))
    full = full.chosen(x.iota(1).reshape(()) == 0, full, _zeros(x, (*before, *number.shape, *after)))
    updated = _by_index(old, kind, number.reshape(count), full.reshape(*before, count, *after), merged_axis)
    back = updated.reshape(*before, *sizes, *after)
    return back.transpose(*(order.index(axis) for axis in range(len(x.shape))))


def _zeros(x: T, shape: Sequence[int]) -> T:
    """Return zeros of a shape, in the dtype of x."""
    zeros = x.iota(1).reshape(()) * 0
    for axis, extent in enumerate(shape):
        zeros = zeros + (x.iota(extent) * 0).reshape(*(extent if a == axis else 1 for a in range(len(shape))))
    return zeros.astype(x.dtype)


def _by_index(old: T, kind: str, index: T, new: T, merged_axis: int) -> T:
    """Update one axis: `index` says which element of it each of `new` belongs to."""
    extent, count = old.shape[merged_axis], index.shape[0]

    def along(value: T) -> T:
        return value.reshape(*(extent if axis == merged_axis else 1 for axis in range(len(old.shape))))

    if kind == "add":
        touched = (index * 0 + 1).summed_at(index, extent, 0)
        total = old + new.summed_at(index, extent, merged_axis)
        return old.chosen(along(touched) > 0, total.astype(old.dtype), old)
    same = old.iota(extent)[:, None].compare("eq", index[None, :])
    if kind == "set":
        last = old.chosen(same, old.iota(count)[None, :] + 1, 0).max(1)
        return old.chosen(along(last) > 0, new.picked(last - 1, merged_axis), old)
    if kind not in ("max", "min"):
        raise OperandMismatch("index arrays take set, add, max and min", hint="multiply x[i], and set it")
    wide = same.reshape(*(1,) * merged_axis, extent, count, *(1,) * (len(old.shape) - merged_axis - 1))
    candidates = new.reshape(*new.shape[:merged_axis], 1, *new.shape[merged_axis:])
    masked = old.chosen(wide, candidates, _least(old.dtype, kind))
    reduce: Callable[..., T] = masked.max if kind == "max" else masked.min
    return _combined(kind, old, reduce(merged_axis + 1))


def _least(dtype: DType, kind: str) -> float:
    """Return the number that no other one is below (for "max"), or above."""
    if dtype == boolean:
        return kind == "min"
    if dtype.is_float:
        return -inf if kind == "max" else inf
    return range_of(dtype)[0 if kind == "max" else 1]
