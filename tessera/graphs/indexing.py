"""Subscripts as index maps: integers, slices, `None`, `...`, and one array of integers."""

from collections.abc import Sequence
from operator import index as index_of
from typing import cast

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.runtime.arrays.host import plain


def index_map_of(index: object, shape: Sequence[int]) -> tuple[IndexMap, list[tuple[int, object]]]:
    """Return the view that a subscript of an array of `shape` is, and what is gathered along which of its axes.

    Raises OperandMismatch for more indices than axes, and for a number outside of its axis.
    """
    extents: list[int] = []
    axes: list[Affine] = []
    gathered: list[tuple[int, object]] = []
    entries = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    for each in _expanded(entries, len(shape)):
        entry = plain(each)
        if entry is None:
            extents.append(1)
            continue
        size = shape[len(axes)]
        if isinstance(entry, slice):
            start, step, count = bounds(cast("slice[int | None, int | None, int | None]", entry), size)
            axes.append(Affine(start, (Term(len(extents), step),)))
            extents.append(count)
        elif isinstance(entry, int):
            if not -size <= entry < size:
                raise OperandMismatch(f"index {entry} lies outside an axis of {size}")
            axes.append(Affine(entry % size))
        else:
            gathered.append((len(extents), entry))
            axes.append(Affine(0, (Term(len(extents)),)))
            extents.append(size)
    if len(gathered) > 1:
        raise OperandMismatch("only one axis can be indexed by an array", hint="use op.gather for each")
    return IndexMap(tuple(extents), tuple(axes)), gathered


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
