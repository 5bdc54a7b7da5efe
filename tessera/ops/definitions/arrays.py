"""Operators that make, move, join and pick elements."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import index as index_of

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DTypeLike, i64
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.graph.expr import Number
from tessera.core.graph.index_maps import broadcast, window
from tessera.core.placement.mesh_array import MeshArray
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.operands.numbers import held_number, require_dtype
from tessera.graphs.operands.updates import At
from tessera.graphs.shapes import axis_of
from tessera.graphs.trace import current_trace, trace_of
from tessera.graphs.tracer import Tracer, as_tracer, indices


def arange(extent: int) -> Array:
    """Return 0, 1, 2, ... as i64, in the graph that is being captured.  Raises CannotTrace outside of one."""
    trace = current_trace()
    if trace is None:
        raise _outside("arange")
    _require_extents("arange", [extent])
    return Tracer(trace, trace.builder.iota(extent))


def full(shape: Sequence[int], value: Number, dtype: DTypeLike = "f32") -> Array:
    """Return one number everywhere, in the graph that is being captured."""
    trace = current_trace()
    if trace is None:
        raise _outside("full")
    try:
        elements = require_dtype(dtype)
    except OperandMismatch as mistake:
        raise at_call(mistake) from None
    _require_extents("full", shape)
    return Tracer(trace, trace.builder.full(float(value) if elements.is_float else value, elements, shape))


def zeros(shape: Sequence[int], dtype: DTypeLike = "f32") -> Array:
    """Return 0 everywhere, in the graph that is being captured."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: DTypeLike = "f32") -> Array:
    """Return 1 everywhere, in the graph that is being captured."""
    return full(shape, 1, dtype)


def _require_extents(name: str, shape: Sequence[int]) -> None:
    if any(extent < 0 for extent in shape):
        raise at_call(OperandMismatch(f"{name} of {tuple(shape)}: an extent is less than 0", hint="give 0 or more"))


def _outside(name: str) -> CannotTrace:
    message = f"{name} makes a value of a graph, and none is being captured"
    return at_call(CannotTrace(message, hint=f"use numpy.{name} here"))


@operator("reshape")
def reshape(x: Array, shape: Sequence[int]) -> Array:
    """Return the same elements in row-major order in another shape; -1 stands for what is left."""
    return as_tracer(x).reshape(*shape)


@operator("transpose")
def transpose(x: Array, axes: Sequence[int] | None = None) -> Array:
    """Permute the axes; without `axes`, reverse them."""
    return as_tracer(x).transpose(*(axes or ()))


@operator("broadcast_to")
def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """Repeat axes of extent 1, and new ones in front, as NumPy's `broadcast_to`.  Raises OperandMismatch."""
    given = as_tracer(x)
    wanted = tuple(shape)
    first = len(wanted) - given.ndim
    if first < 0 or any(size not in (1, to) for size, to in zip(given.shape, wanted[first:], strict=True)):
        raise OperandMismatch(f"{given.shape} does not spread over {wanted}")
    places = range(first, len(wanted))
    return given.of(given.trace.builder.view(given.value, broadcast(given.shape, places, wanted)))


@operator("concat")
def concat(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Join arrays along an axis.  Raises OperandMismatch for no arrays, and for extents or dtypes that differ."""
    values = _several(arrays)
    first = values[0]
    place = axis_of(first.ndim, axis)
    for each in values[1:]:
        rest = [shape[:place] + shape[place + 1 :] for shape in (each.shape, first.shape)]
        if rest[0] != rest[1] or each.dtype != first.dtype:
            raise OperandMismatch(f"{first.dtype} {first.shape} and {each.dtype} {each.shape} do not join along {axis}")
    return first.of(first.trace.builder.concat([each.value for each in values], place))


@operator("stack")
def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis."""
    values = [each[..., None] for each in _several(arrays)]
    place = axis_of(values[0].ndim, axis)
    order = [*range(place), values[0].ndim - 1, *range(place, values[0].ndim - 1)]
    return concat([each.transpose(*order) for each in values], axis=place)


def _several(arrays: Sequence[Array]) -> list[Array]:
    if not arrays:
        raise OperandMismatch("there is nothing to join", hint="give one array or more")
    trace = trace_of(*arrays)
    return [as_tracer(each, trace) for each in arrays]


@operator("split")
def split(x: Array, parts: int | Sequence[int], axis: int = -1) -> tuple[Array, ...]:
    """Cut an axis into pieces.

    parts: how many pieces of equal size, or the size of each, as PyTorch's `split_with_sizes`; NumPy's lists are the
      positions of the cuts instead
    Raises OperandMismatch for sizes that do not add up to the extent, and where equal pieces do not come out even.
    """
    array = as_tracer(x)
    axis = axis_of(array.ndim, axis)
    sizes = _sizes(array.shape[axis], parts, axis)
    ends = list(accumulate(sizes))
    front = (slice(None),) * axis
    return tuple(array[(*front, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))


def _sizes(extent: int, parts: int | Sequence[int], axis: int) -> list[int]:
    """Return the sizes of the pieces of an axis.  Raises OperandMismatch."""
    if not isinstance(parts, Sequence):
        count = index_of(parts)
        if count < 1 or extent % count:
            hint = "give their sizes instead: op.split(x, [2, 3], axis)"
            raise OperandMismatch(f"{extent} elements do not make {count} equal parts", hint=hint)
        return [extent // count] * count
    sizes = [index_of(size) for size in parts]
    if not sizes or any(size < 0 for size in sizes) or sum(sizes) != extent:
        raise OperandMismatch(
            f"sizes {sizes} add up to {sum(sizes)}, and axis {axis} has {extent} elements",
            hint=_sizes_hint(sizes, extent),
        )
    return sizes


def _sizes_hint(numbers: Sequence[int], extent: int) -> str:
    """Return what to write instead of numbers that are no sizes: NumPy's positions, perhaps."""
    cuts = [0, *numbers, extent]
    sizes = [after - before for before, after in pairwise(cuts)]
    if numbers and all(size >= 0 for size in sizes):
        return f"give sizes, not the positions of cuts as NumPy: {sizes} cuts at {list(numbers)}"
    return "give one size or more, each 0 or more, that add up to the extent"


@operator("pad")
def pad(x: Array, widths: int | Sequence[int] | Sequence[tuple[int, int]], value: Number = 0) -> Array:
    """Put a number before and after each axis.

    widths: (before, after) per axis, or one such pair for an array of one axis, or one number for all sides; a width
      below 0 cuts elements off
    value: a number that the dtype of x holds: an infinity for floats, a bool for bools
    Raises OperandMismatch for other widths, and for a number that the dtype does not hold.
    """
    array = as_tracer(x)
    pairs = _pairs(widths, array.ndim)
    number = held_number(value, array.dtype)
    extents = [size + before + after for size, (before, after) in zip(array.shape, pairs, strict=True)]
    if any(extent < 0 for extent in extents):
        raise OperandMismatch(f"widths {tuple(pairs)} cut off more than {array.shape} has")
    starts = [-before for before, _ in pairs]
    view = window(array.shape, starts, [1] * array.ndim, extents)
    padded = array.of(array.trace.builder.view(array.value, view))
    if not view.padded or (number == 0 and math.copysign(1.0, number) > 0.0):
        return padded
    return tracer.select(_inside(padded, array.shape, pairs), padded, number)


def _inside(padded: Tracer, shape: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Tracer:
    """Return which elements of a padded array, one of `shape` before, are elements of that."""
    tests: list[Tracer] = []
    for axis, (size, (before, after)) in enumerate(zip(shape, pairs, strict=True)):
        index = padded.iota(padded.shape[axis]).reshape(*(-1 if n == axis else 1 for n in range(padded.ndim)))
        tests += [index >= before] if before > 0 else []
        tests += [index < before + size] if after > 0 else []
    inside, *others = tests
    for test in others:
        inside = inside & test
    return inside


def _pairs(widths: int | Sequence[int] | Sequence[tuple[int, int]], ndim: int) -> list[tuple[int, int]]:
    """Return the widths before and after each axis.  Raises OperandMismatch."""
    if not isinstance(widths, Sequence):
        return [(index_of(widths), index_of(widths))] * ndim
    pairs: list[int | Sequence[int]] = list(widths)
    numbers = [width for width in pairs if not isinstance(width, Sequence)]
    if ndim == 1 and len(numbers) == len(pairs) == 2:
        pairs = [numbers]
    hint = "give (before, after) per axis, or one number for all sides"
    if len(pairs) != ndim:
        raise OperandMismatch(f"{len(pairs)} pairs of widths for {ndim} axes", hint=hint)
    checked: list[tuple[int, int]] = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise OperandMismatch(f"{pair} is no pair of widths", hint=hint)
        checked.append((index_of(pair[0]), index_of(pair[1])))
    return checked


@operator("gather")
def gather(x: Array, index: Array, axis: int = 0) -> Array:
    """Return the elements at integer indices along an axis, as NumPy's `take`: negative ones count from the end.

    Raises OperandMismatch for an index in a list, or in an array in host memory, that is outside of the axis; one that
    is computed, or lies on a GPU, gives 0.
    """
    given = as_tracer(x, trace_of(x, index))
    return tracer.gather(given, index, axis_of(given.ndim, axis))


def at(x: Array) -> At[Tracer]:
    """Return places of x to be updated, as `x.at` of a value of the graph: `op.at(x)[2:4].set(0.0)`.

    Raises CannotTrace where no graph is captured, but for arrays on a mesh.
    """
    if current_trace() is None:
        if isinstance(x, MeshArray):
            return x.at
        raise at_call(
            CannotTrace(
                "at updates a value of a graph, and none is being captured", hint="write y = x.copy(); y[i] = v"
            )
        )
    return as_tracer(x).at


@operator("take_along_axis")
def take_along_axis(x: Array, index: Array, axis: int) -> Array:
    """Return the elements at one index each along an axis: `x[..., index[..., i, ...], ...]`, as NumPy has it.

    index: as many axes as x; the others have the extents of x, or 1.  Negative ones count from the end; those outside
      of the axis are as in `gather`.  Raises OperandMismatch.
    """
    trace = trace_of(x, index)
    values, picked = as_tracer(x, trace), indices(index, trace)
    number = axis_of(values.ndim, axis)
    trace.picks(picked.value, -values.shape[number], values.shape[number])
    if picked.ndim != values.ndim:
        raise OperandMismatch(
            f"indices of {picked.shape} do not have as many axes as x of {values.shape}", hint="insert axes of extent 1"
        )
    places = [Tracer(trace, trace.builder.iota(extent)) for extent in values.shape]
    along = [each.reshape(*(-1 if n == m else 1 for m in range(values.ndim))) for n, each in enumerate(places)]
    along[number] = picked
    return tracer.gather_several(values, along, range(values.ndim))


@operator("one_hot")
def one_hot(index: Array, classes: int, dtype: str = "f32") -> Array:
    """Return 1 where the last axis is the index, else 0: [..., classes].  Raises OperandMismatch for no integers."""
    if classes < 0:
        raise OperandMismatch(f"one_hot of {classes} classes", hint="give how many there are")
    return (indices(index).astype(i64)[..., None] == arange(classes)).astype(dtype)
