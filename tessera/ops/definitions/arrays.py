"""Operators that make, move, join, pick and reduce elements."""

from collections.abc import Sequence
from typing import Any

from tessera.core.base.dtypes import BY_NAME, DType, i64
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.graph.expr import Number
from tessera.core.graph.index_maps import broadcast, window
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.operands.updates import At
from tessera.graphs.shapes import axes_of
from tessera.graphs.trace import current_trace
from tessera.graphs.tracer import Tracer, as_tracer, indices, trace_of

Array = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured
Axes = int | Sequence[int] | None


def arange(extent: int) -> Array:
    """Return 0, 1, 2, ... as i64, in the graph that is being captured.  Raises CannotTrace outside of one."""
    trace = current_trace()
    if trace is None:
        raise _outside("arange")
    _require_extents("arange", [extent])
    return Tracer(trace, trace.builder.iota(extent))


def full(shape: Sequence[int], value: Number, dtype: DType | str = "f32") -> Array:
    """Return one number everywhere, in the graph that is being captured."""
    trace = current_trace()
    if trace is None:
        raise _outside("full")
    kind = BY_NAME.get(dtype) if isinstance(dtype, str) else dtype
    if kind is None:
        wrong = OperandMismatch(f"there is no dtype {dtype!r}", hint=f"choose from {', '.join(sorted(BY_NAME))}")
        raise at_call(wrong)
    _require_extents("full", shape)
    return Tracer(trace, trace.builder.full(float(value) if kind.is_float else value, kind, shape))


def zeros(shape: Sequence[int], dtype: DType | str = "f32") -> Array:
    """Return 0 everywhere, in the graph that is being captured."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: DType | str = "f32") -> Array:
    """Return 1 everywhere, in the graph that is being captured."""
    return full(shape, 1, dtype)


def _require_extents(name: str, shape: Sequence[int]) -> None:
    if any(extent < 0 for extent in shape):
        raise at_call(OperandMismatch(f"{name} of {tuple(shape)}: an extent is less than 0", hint="give 0 or more"))


def _outside(name: str) -> CannotTrace:
    message = f"{name} makes a value of a graph, and none is being captured"
    return at_call(CannotTrace(message, hint=f"use numpy.{name} here"))


def _axis(x: Array, axis: int) -> int:
    """Return an axis counted from 0.  Raises OperandMismatch for one that is not there."""
    return axes_of(x.ndim, axis)[0]


@operator("sum")
def sum_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Sum along axes, or of everything; in f32 for shorter floats, in one fixed order."""
    return as_tracer(x).sum(axis, keepdims=keepdims)


@operator("max")
def max_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the greatest along axes, or of everything; NaN wins."""
    return as_tracer(x).max(axis, keepdims=keepdims)


@operator("min")
def min_(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the least along axes, or of everything; NaN wins."""
    return as_tracer(x).min(axis, keepdims=keepdims)


@operator("mean")
def mean(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the mean along axes, or of everything."""
    return as_tracer(x).mean(axis, keepdims=keepdims)


@operator("var")
def var(x: Array, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the variance (over the count) along axes, from what is left when the mean is taken off."""
    given = as_tracer(x)
    centred = given - given.mean(axis, keepdims=True)
    return (centred * centred).mean(axis, keepdims=keepdims)


@operator("argmax")
def argmax(x: Array, axis: int = -1) -> Array:
    """Return the index of the greatest along an axis, the first of equal ones, as i64.

    Raises OperandMismatch for an axis without elements.
    """
    given = as_tracer(x)
    axis = _axis(given, axis)
    if not given.shape[axis]:
        raise OperandMismatch(f"the greatest of no elements has no place: axis {axis} of {given.shape} is empty")
    place = arange(given.shape[axis]).reshape(*(given.shape[axis] if n == axis else 1 for n in range(given.ndim)))
    top = given == given.max(axis, keepdims=True)
    # NaN equals nothing: where one is the greatest, look for it.
    wins = top | (given != given)  # noqa: PLR0124
    return tracer.select(wins, place, given.shape[axis]).min(axis)


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
    place = _axis(first, axis)
    for each in values[1:]:
        rest = [shape[:place] + shape[place + 1 :] for shape in (each.shape, first.shape)]
        if rest[0] != rest[1] or each.dtype != first.dtype:
            raise OperandMismatch(f"{first.dtype} {first.shape} and {each.dtype} {each.shape} do not join along {axis}")
    return first.of(first.trace.builder.concat([each.value for each in values], place))


@operator("stack")
def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis."""
    values = [each[..., None] for each in _several(arrays)]
    place = _axis(values[0], axis)
    order = [*range(place), values[0].ndim - 1, *range(place, values[0].ndim - 1)]
    return concat([each.transpose(*order) for each in values], axis=place)


def _several(arrays: Sequence[Array]) -> list[Array]:
    if not arrays:
        raise OperandMismatch("there is nothing to join", hint="give one array or more")
    trace = trace_of(*arrays)
    return [as_tracer(each, trace) for each in arrays]


@operator("split")
def split(x: Array, parts: int, axis: int = -1) -> tuple[Array, ...]:
    """Cut an axis into equal parts.  Raises OperandMismatch where it does not come out even."""
    given = as_tracer(x)
    place = _axis(given, axis)
    if parts < 1 or given.shape[place] % parts:
        raise OperandMismatch(f"{given.shape[place]} elements do not make {parts} equal parts")
    each = given.shape[place] // parts
    front = (slice(None),) * place
    return tuple(given[(*front, slice(n * each, (n + 1) * each))] for n in range(parts))


@operator("pad")
def pad(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """Put zeros before and behind each axis; a width below 0 cuts off.  Raises OperandMismatch."""
    given = as_tracer(x)
    if len(widths) != given.ndim:
        raise OperandMismatch(
            f"{len(widths)} pairs of widths for {given.ndim} axes", hint="give (before, behind) an axis"
        )
    extents = [size + before + behind for size, (before, behind) in zip(given.shape, widths, strict=True)]
    if any(extent < 0 for extent in extents):
        raise OperandMismatch(f"widths {tuple(widths)} cut off more than {given.shape} has")
    starts = [-before for before, _ in widths]
    return given.of(given.trace.builder.view(given.value, window(given.shape, starts, [1] * given.ndim, extents)))


@operator("gather")
def gather(x: Array, index: Array, axis: int = 0) -> Array:
    """Return the elements at integer indices along an axis, as NumPy's `take`: negative ones count from the end.

    Indices outside of the axis give 0: they cannot raise, since they are known when the graph runs.
    """
    given = as_tracer(x, trace_of(x, index))
    return tracer.gather(given, index, _axis(given, axis))


def at(x: Array) -> At[Tracer]:
    """Return places of x to be updated, as `x.at` of a value of the graph: `op.at(x)[2:4].set(0.0)`.

    Raises CannotTrace where no graph is captured.
    """
    if current_trace() is None:
        raise at_call(
            CannotTrace(
                "at updates a value of a graph, and none is being captured", hint="write y = x.copy(); y[i] = v"
            )
        )
    return as_tracer(x).at


@operator("take_along_axis")
def take_along_axis(x: Array, index: Array, axis: int) -> Array:
    """Return the elements at one index each along an axis: `x[..., index[..., i, ...], ...]`, as NumPy has it.

    index: as many axes as x; the others have the extents of x, or 1.  Negative ones count from the end; outside of the
      axis there is 0.  Raises OperandMismatch.
    """
    trace = trace_of(x, index)
    values, picked = as_tracer(x, trace), indices(index, trace)
    number = _axis(values, axis)
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
