"""Subscripts as index maps and gathers: integers, slices, `None`, `...`, lists and arrays of integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index as index_of
from typing import Final, TypeVar, cast

from tessera.core.arrays.operators import Operators
from tessera.core.base.dtypes import DType, boolean
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.runtime.arrays.host import plain

T = TypeVar("T", bound=Operators)
_MASKS: Final = "keep the shape, op.where(mask, x, 0), or give integers, x[np.flatnonzero(mask)] of a mask of NumPy"


@dataclass(frozen=True, slots=True)
class Subscript:
    """A subscript of an array: a view, then elements of some of the view's axes.

    view: integers and slices; axes, arrays: what picks along which axes of the view
    first: whether the axes of the index arrays come first in the result, as NumPy has it for arrays that stand apart
    """

    view: IndexMap
    axes: tuple[int, ...] = ()
    arrays: tuple[object, ...] = ()
    first: bool = False


def subscript_of(index: object, shape: Sequence[int]) -> Subscript:
    """Return what a subscript of an array of `shape` takes.

    Raises OperandMismatch for more indices than axes, and for a number outside of its axis.
    """
    extents: list[int] = []
    affine: list[Affine] = []
    axes: list[int] = []
    arrays: list[object] = []
    entries = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    for each in _expanded(entries, len(shape)):
        entry = plain(each)
        if entry is None:
            extents.append(1)
            continue
        size = shape[len(affine)]
        if isinstance(entry, slice):
            start, step, count = bounds(cast("slice[int | None, int | None, int | None]", entry), size)
            affine.append(Affine(start, (Term(len(extents), step),)))
            extents.append(count)
            continue
        if isinstance(entry, int) and not isinstance(entry, bool):
            affine.append(Affine(inside(entry, size)))
        else:
            axes.append(len(extents))
            arrays.append(entry)
            affine.append(Affine(0, (Term(len(extents)),)))
            extents.append(size)
    first = bool(arrays) and _are_separated(entries)
    return Subscript(IndexMap(tuple(extents), tuple(affine)), tuple(axes), tuple(arrays), first)


def _are_separated(entries: Sequence[object]) -> bool:
    """Return whether slices, `None` or `...` stand between index arrays; integers count as such where there is one."""
    picks = [not (each is None or each is Ellipsis or isinstance(each, slice)) for each in entries]
    begin, end = picks.index(True), len(picks) - picks[::-1].index(True)
    return not all(picks[begin:end])


def inside(index: int, size: int) -> int:
    """Return an index of an axis counted from its begin.  Raises OperandMismatch for one outside."""
    if not -size <= index < size:
        raise OperandMismatch(f"index {index} is outside an axis of {size}")
    return index % size


@dataclass(frozen=True, slots=True)
class ListedIndices:
    """Integers of a list, or of lists in a list, in row-major order, counted from the begin of an axis; their shape."""

    numbers: tuple[int, ...]
    shape: tuple[int, ...]


def listed_indices(entry: object, size: int) -> ListedIndices | None:
    """Return the integers of a list index of an axis of `size` elements; None for entries that are no lists.

    Raises OperandMismatch for lists of other things, for rows of different lengths, and for an integer outside of the
    axis.
    """
    if not isinstance(entry, list | tuple | range):
        return None
    rows = [plain(each) for each in cast("Sequence[object]", entry)]
    if rows and all(isinstance(each, list | tuple | range) for each in rows):
        nested = [listed for row in rows if (listed := listed_indices(row, size)) is not None]
        if len({each.shape for each in nested}) > 1:
            raise OperandMismatch(f"{entry!r} has rows of different lengths", hint="index with one row after another")
        return ListedIndices(tuple(n for each in nested for n in each.numbers), (len(rows), *nested[0].shape))
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in rows):
        raise OperandMismatch(f"{entry!r} is no list of integers", hint=_MASKS)
    return ListedIndices(tuple(inside(cast("int", each), size) for each in rows), (len(rows),))


def require_integers(dtype: DType) -> None:
    """Raise OperandMismatch unless an index array has an integer dtype."""
    if dtype == boolean:
        raise OperandMismatch("a mask picks as many elements as are true, which a graph cannot know", hint=_MASKS)
    if not dtype.is_integer:
        raise OperandMismatch(f"indices are integers, not {dtype}", hint="convert with .astype('i64')")


def linear_index(picked: Sequence[T], sizes: Sequence[int]) -> T:
    """Return row-major element numbers for indices of several axes, -1 where an index is out of range.

    Negative indices count from the end.
    """
    number: T | None = None
    valid: T | None = None
    for each, size in zip(picked, sizes, strict=True):
        index = each + (each < 0) * size
        within = (index >= 0) & (index < size)
        number = index if number is None else number * size + index
        valid = within if valid is None else valid & within
    assert number is not None
    assert valid is not None
    return (number + 1) * valid - 1


def bounds(given: "slice[int | None, int | None, int | None]", size: int) -> tuple[int, int, int]:
    """Return the first index of a slice of an axis, its step, and how many there are; the axis may be a symbol."""
    step = 1 if given.step is None else index_of(given.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)

    def place(value: int | None, default: int) -> int:
        if value is None:
            return default
        value = index_of(value)
        return min(max(value + size if value < 0 else value, lowest), highest)

    first = place(given.start, lowest if step > 0 else highest)
    last = place(given.stop, highest if step > 0 else lowest)
    return first, step, max(0, -((first - last) // step))


def _expanded(index: Sequence[object], rank: int) -> list[object]:
    """Return one entry an axis, `...` and what is left out filled in."""
    named = sum(entry is not None and entry is not Ellipsis for entry in index)
    if named > rank:
        raise OperandMismatch(f"{named} indices for {rank} axes")
    dots = sum(entry is Ellipsis for entry in index)
    if dots > 1:
        raise OperandMismatch(f"an index has one ..., not {dots}")
    given = list(index) if dots else [*index, Ellipsis]
    place = next(n for n, entry in enumerate(given) if entry is Ellipsis)
    return [*given[:place], *[slice(None)] * (rank - named), *given[place + 1 :]]
