"""Operators that move elements: axes in another form or order, turned, shifted, repeated, in windows, in triangles."""

import math
from collections.abc import Sequence
from operator import index as index_of

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import axes_in_order, axes_of, axis_of
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import broadcast_to, concat

Axes = int | Sequence[int] | None


@operator("squeeze")
def squeeze(x: Array, axis: Axes = None) -> Array:
    """Return x without axes of extent 1: without all of them, or the named ones.

    Raises OperandMismatch for a named axis of another extent.
    """
    array = as_tracer(x)
    axes = [n for n, size in enumerate(array.shape) if size == 1] if axis is None else axes_of(array.ndim, axis)
    for number in axes:
        if array.shape[number] != 1:
            message = f"axis {number} of {array.shape} has {array.shape[number]} elements, not 1"
            raise OperandMismatch(message, hint="name axes of extent 1, or none: op.squeeze(x)")
    return array.reshape(*(size for n, size in enumerate(array.shape) if n not in axes))


@operator("expand_dims")
def expand_dims(x: Array, axis: int | Sequence[int]) -> Array:
    """Return x with new axes of extent 1.

    axis: their numbers among the axes of the result, as NumPy's
    Raises OperandMismatch for one that the result does not have, or twice.
    """
    array = as_tracer(x)
    ndim = array.ndim + (len(axis) if isinstance(axis, Sequence) else 1)
    axes, sizes = axes_in_order(ndim, axis), iter(array.shape)
    return array.reshape(*(1 if n in axes else next(sizes) for n in range(ndim)))


@operator("flatten")
def flatten(x: Array, start: int = 0, end: int = -1) -> Array:
    """Return x with the axes from `start` to `end` as one, in row-major order; both count, as PyTorch's `flatten`.

    An array without axes gives one of one element.  Raises OperandMismatch for axes that are not there, or that end
    before they start.
    """
    array = as_tracer(x)
    ndim = max(array.ndim, 1)
    first, last = axis_of(ndim, start), axis_of(ndim, end)
    if first > last:
        raise OperandMismatch(f"axes {first} to {last} of {array.shape} are none", hint="give start <= end")
    merged = math.prod(array.shape[first : last + 1])
    return array.reshape(*array.shape[:first], merged, *array.shape[last + 1 :])


@operator("swapaxes")
def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    """Return x with two axes exchanged.  Raises OperandMismatch for axes that are not there."""
    array = as_tracer(x)
    first, second = axis_of(array.ndim, axis1), axis_of(array.ndim, axis2)
    order = list(range(array.ndim))
    order[first], order[second] = second, first
    return array.transpose(*order)


@operator("moveaxis")
def moveaxis(x: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Return x with axes moved to other positions, as NumPy's; the others keep their order.

    source, destination: one axis each, or as many of one as of the other
    Raises OperandMismatch for axes that are not there, or twice, and for numbers of axes that differ.
    """
    array = as_tracer(x)
    old, new = axes_in_order(array.ndim, source), axes_in_order(array.ndim, destination)
    if len(old) != len(new):
        raise OperandMismatch(f"{len(old)} axes do not move to {len(new)} positions", hint="give as many of each")
    order = [n for n in range(array.ndim) if n not in old]
    for position, number in sorted(zip(new, old, strict=True)):
        order.insert(position, number)
    return array.transpose(*order) if order else array


@operator("flip")
def flip(x: Array, axis: Axes = None) -> Array:
    """Return x with the elements along axes, or along all of them, in reverse.  Raises OperandMismatch."""
    array = as_tracer(x)
    axes = axes_of(array.ndim, axis)
    return array[tuple(slice(None, None, -1 if n in axes else 1) for n in range(array.ndim))]


@operator("roll")
def roll(x: Array, shift: int | Sequence[int], axis: Axes = None) -> Array:
    """Return x shifted along axes; elements that leave at one end come back at the other, as NumPy's `roll`.

    shift: by how many positions, towards higher indices; one for all axes, or one per axis
    axis: None: x is shifted as one axis, in row-major order; an axis that is named twice is shifted twice
    Raises OperandMismatch for axes that are not there, and for shifts that are not as many.
    """
    array = as_tracer(x)
    if axis is None:
        return _rolled(array.reshape(-1), _total(shift), 0).reshape(*array.shape)
    axes = axes_in_order(array.ndim, axis, repeated=True)
    shifts = list(shift) if isinstance(shift, Sequence) else [shift] * len(axes)
    if len(axes) == 1:  # as NumPy has it, several shifts of one axis add up
        axes = axes * len(shifts)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(shifts) != len(axes):
        raise OperandMismatch(f"{len(shifts)} shifts of {len(axes)} axes", hint="give one shift, or one per axis")
    for number in dict.fromkeys(axes):
        array = _rolled(array, sum(index_of(by) for by, n in zip(shifts, axes, strict=True) if n == number), number)
    return array


def _total(shift: int | Sequence[int]) -> int:
    return sum(map(index_of, shift)) if isinstance(shift, Sequence) else index_of(shift)


def _rolled(x: Tracer, shift: int, axis: int) -> Tracer:
    extent = x.shape[axis]
    cut = -shift % extent if extent else 0
    if not cut:
        return x
    front = (slice(None),) * axis
    return concat([x[(*front, slice(cut, None))], x[(*front, slice(None, cut))]], axis)


@operator("tril")
def tril(x: Array, k: int = 0) -> Array:
    """Return x with 0 above the k-th diagonal of the last two axes; NaN and infinities there give 0, too.

    Raises OperandMismatch for an array of less than two axes.
    """
    return _triangle(as_tracer(x), "tril", "le", index_of(k))


@operator("triu")
def triu(x: Array, k: int = 0) -> Array:
    """Return x with 0 below the k-th diagonal of the last two axes; NaN and infinities there give 0, too.

    Raises OperandMismatch for an array of less than two axes.
    """
    return _triangle(as_tracer(x), "triu", "ge", index_of(k))


def _triangle(x: Tracer, name: str, predicate: str, k: int) -> Tracer:
    if x.ndim < 2:
        raise OperandMismatch(
            f"{name} of {x.shape} has no diagonal", hint=f"give [..., m, n]: op.{name}(op.broadcast_to(x, (n, n)), k)"
        )
    rows, columns = x.iota(x.shape[-2])[:, None], x.iota(x.shape[-1])
    kept = tracer.compare(predicate, columns - rows, k)
    return tracer.select(kept, x, False if x.dtype == boolean else 0)


@operator("outer")
def outer(a: Array, b: Array) -> Array:
    """Return the products of all pairs: `a[i] * b[j]`, [m, n] of [m] and [n]; of bools whether both hold.

    Raises OperandMismatch for arrays that do not have one axis.
    """
    trace = trace_of(a, b)
    column, row = as_tracer(a, trace), as_tracer(b, trace)
    if column.ndim != 1 or row.ndim != 1:
        hint = "multiply batches by op.expand_dims(a, -1) * op.expand_dims(b, -2), or flatten: op.flatten(a)"
        raise OperandMismatch(f"outer of {column.shape} and {row.shape} takes arrays of one axis", hint=hint)
    return tracer.binary("and" if column.dtype == row.dtype == boolean else "mul", column[:, None], row)


@operator("unfold")
def unfold(x: Array, axis: int, size: int, step: int = 1) -> Array:
    """Return windows along an axis, as PyTorch's `Tensor.unfold`: a view, which element-wise operators read through.

    The axis counts the windows, which begin `step` elements after one another; a new last axis has the `size` elements
    of each.  `op.im2col` is PyTorch's `functional.unfold`.  Raises OperandMismatch for windows of less than 1 or more
    than all elements, and for steps less than 1.
    """
    array = as_tracer(x)
    number, size, step = axis_of(array.ndim, axis), index_of(size), index_of(step)
    extent = array.shape[number]
    if not 1 <= size <= extent or step < 1:
        hint = f"give 1 <= size <= {extent} and step >= 1" if extent else "give an axis with elements"
        raise OperandMismatch(f"windows of {size} elements in steps of {step} of an axis of {extent}", hint=hint)
    shape = [*array.shape, size]
    shape[number] = (extent - size) // step + 1
    axes = [Affine(0, (Term(n),)) for n in range(array.ndim)]
    axes[number] = Affine(0, (Term(number, step), Term(array.ndim)))
    return array.of(array.trace.builder.view(array.value, IndexMap(tuple(shape), tuple(axes))))


@operator("repeat")
def repeat(x: Array, repeats: int, axis: int | None = None) -> Array:
    """Return x with each element `repeats` times along an axis, one after another, as NumPy's `repeat`.

    axis: None: of x as one axis, in row-major order.  Raises OperandMismatch for less than 0 times, and for an axis
    that is not there.
    """
    array = as_tracer(x)
    array = array.reshape(-1) if axis is None else array
    number, count = 0 if axis is None else axis_of(array.ndim, axis), _count(repeats)
    before, after = array.shape[: number + 1], array.shape[number + 1 :]
    spread = broadcast_to(array.reshape(*before, 1, *after), (*before, count, *after))
    return spread.reshape(*before[:-1], before[-1] * count, *after)


@operator("tile")
def tile(x: Array, reps: int | Sequence[int]) -> Array:
    """Return x repeated as a whole along each axis, as NumPy's `tile`.

    reps: how often along each axis, the last ones; of more numbers than axes, x gets new axes in front
    Raises OperandMismatch for less than 0 times.
    """
    array = as_tracer(x)
    counts = [_count(number) for number in (reps if isinstance(reps, Sequence) else [reps])]
    counts = [1] * (array.ndim - len(counts)) + counts
    shape = [1] * (len(counts) - array.ndim) + list(array.shape)
    paired = [extent for size in shape for extent in (1, size)]
    repeated = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    spread = broadcast_to(array.reshape(*paired), repeated)
    return spread.reshape(*(count * size for count, size in zip(counts, shape, strict=True)))


def _count(number: int) -> int:
    """Return a number of repetitions.  Raises OperandMismatch for less than 0, and for several numbers."""
    if isinstance(number, Sequence | Tracer):
        raise OperandMismatch("one number says how often elements are repeated", hint="pick them: op.gather(x, index)")
    if index_of(number) < 0:
        raise OperandMismatch(f"elements are repeated {number} times", hint="give 0 or more")
    return index_of(number)
