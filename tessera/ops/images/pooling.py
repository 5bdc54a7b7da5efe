"""Pools: the greatest or the mean of windows of images, of a given size or of a given number.

A pool of maxima takes them along one axis after the other, and reads its input where it lies: padding is no copy.
"""

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Final

import numpy as np

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.graphs import tracer
from tessera.graphs.function import GraphFunction, operator
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import arange
from tessera.ops.definitions.floats import widened
from tessera.ops.images.spatial import PerAxis, WindowAxis, per_axis


def _max_pool(rank: int) -> GraphFunction[..., Array]:
    def definition(
        x: Array, size: PerAxis, stride: PerAxis | None = None, padding: PerAxis = 0, dilation: PerAxis = 1, *,
        ceil_mode: bool = False,
    ) -> Array:  # fmt: skip
        images = _images(x, rank, f"max_pool{rank}d")
        axes = _windows(images, rank, size, stride, padding, dilation, ceil_mode=ceil_mode)
        for n in reversed(range(rank)):
            images = _folded(images, images.ndim - rank + n, axes[n], "max")
        return images

    name = f"max_pool{rank}d"
    return _named(definition, name, f"""Return the greatest of windows of images, as PyTorch's `{name}`.

    x: [..., {_EXTENTS[rank]}], of any dtype; NaN wins
    size, stride, padding, dilation: a number, or one per axis; the stride is the size where none is given, and padding,
    which never wins, is at most half the size
    ceil_mode: whether a last window may end after the padding
    Its derivative goes to the first of equal elements, in row-major order.  Raises OperandMismatch.
    """)  # fmt: skip


def _avg_pool(rank: int) -> GraphFunction[..., Array]:
    def definition(
        x: Array, size: PerAxis, stride: PerAxis | None = None, padding: PerAxis = 0, *, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Array:  # fmt: skip
        wide, dtype = widened(_images(x, rank, f"avg_pool{rank}d"))
        axes = _windows(wide, rank, size, stride, padding, 1, ceil_mode=ceil_mode)
        if divisor_override is not None and divisor_override < 1:
            raise OperandMismatch(f"divisor_override={divisor_override}", hint="give 1 or more")
        total = wide
        for n in reversed(range(rank)):
            total = _summed(total, total.ndim - rank + n, axes[n])
        if divisor_override is not None:
            return (total * (1.0 / divisor_override)).astype(dtype)
        whole = all(_covered(axis, padding=count_include_pad) for axis in axes)
        if whole:
            return (total * (1.0 / prod(axis.taps for axis in axes))).astype(dtype)
        for n, axis in enumerate(axes):
            count = _counts(axis, padding=count_include_pad).astype(wide.dtype)
            total = total / count.reshape(axis.windows, *(1,) * (rank - 1 - n))
        return total.astype(dtype)

    name = f"avg_pool{rank}d"
    return _named(definition, name, f"""Return the means of windows of images, as PyTorch's `{name}`.

    x: [..., {_EXTENTS[rank]}]; floats of 16 bits are summed in f32, integers give f32
    size, stride, padding: a number, or one per axis; the stride is the size where none is given
    ceil_mode: whether a last window may end after the padding; elements after it never count
    count_include_pad: whether the zeros of the padding count; divisor_override: the divisor instead of a count
    Raises OperandMismatch.
    """)  # fmt: skip


def _adaptive_pool(rank: int, kind: str) -> GraphFunction[..., Array]:
    name = f"adaptive_{kind}_pool{rank}d"

    def definition(x: Array, size: int | Sequence[int | None]) -> Array:
        images = _images(x, rank, name)
        wide, dtype = widened(images) if kind == "avg" else (images, images.dtype)
        extents = wide.shape[-rank:]
        sizes = [
            extent if number is None else number
            for number, extent in zip(_adaptive_sizes(size, rank, name), extents, strict=True)
        ]
        return by_parts(wide, sizes, kind).astype(dtype)

    meaning = "means" if kind == "avg" else "greatest elements"
    return _named(definition, name, f"""Return the {meaning} of as many windows as are asked for, as PyTorch's `{name}`.

    x: [..., {_EXTENTS[rank]}]; size: results per axis, one number for all, None for as many as x has
    Window i of n elements begins at floor(i * n / size) and ends before ceil((i + 1) * n / size).
    Raises OperandMismatch.
    """)  # fmt: skip


_FEW_TAPS: Final = 32
"""Taps of a window that are added one after the other."""
_EXTENTS: Final = {1: "width", 2: "height, width", 3: "depth, height, width"}


def _named(definition: Callable[..., Array], name: str, doc: str) -> GraphFunction[..., Array]:
    definition.__name__ = name
    definition.__doc__ = doc
    return operator(name)(definition)


max_pool1d, max_pool2d, max_pool3d = _max_pool(1), _max_pool(2), _max_pool(3)
avg_pool1d, avg_pool2d, avg_pool3d = _avg_pool(1), _avg_pool(2), _avg_pool(3)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_pool(rank, "avg") for rank in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_pool(rank, "max") for rank in (1, 2, 3))


def _images(x: Array, rank: int, name: str) -> Tracer:
    images = as_tracer(x)
    if images.ndim < rank or 0 in images.shape[images.ndim - rank :]:
        raise OperandMismatch(f"{name} of {images.shape}", hint=f"give [..., {_EXTENTS[rank]}], no extent of these 0")
    return images


def _windows(
    images: Tracer, rank: int, size: PerAxis, stride: PerAxis | None, padding: PerAxis, dilation: PerAxis, *,
    ceil_mode: bool,
) -> list[WindowAxis]:  # fmt: skip
    """Return the windows along each spatial axis.  Raises OperandMismatch."""
    taps = per_axis(size, rank, "size")
    strides = taps if stride is None else per_axis(stride, rank, "stride")
    sides = per_axis(padding, rank, "padding", 0)
    steps = per_axis(dilation, rank, "dilation")
    if any(2 * side > count for side, count in zip(sides, taps, strict=True)):
        raise OperandMismatch(
            f"padding={padding} of windows of {size}: some would hold nothing but padding",
            hint="give at most half the size, or pad first with op.pad",
        )
    extents = images.shape[-rank:]
    axes = [
        WindowAxis(size=n, taps=count, stride=s, before=side, after=side, dilation=step, partial=ceil_mode)
        for n, count, s, side, step in zip(extents, taps, strides, sides, steps, strict=True)
    ]
    if min(axis.windows for axis in axes) < 1:
        raise OperandMismatch(f"windows of {size} do not fit images of {' x '.join(map(str, extents))}")
    return axes


def _folded(x: Tracer, axis: int, windows: WindowAxis, opcode: str) -> Tracer:
    """Return the greatest ("max") or the sum ("add") of each window along an axis, taps in rising order.

    Each tap is a strided view, so that windows are never written; of equal maxima the first has the derivative.
    """
    filled = x
    if windows.is_padded:
        last = (windows.windows - 1) * windows.stride + windows.dilation * (windows.taps - 1) + 1
        starts, extents = [0] * x.ndim, list(x.shape)
        starts[axis], extents[axis] = -windows.before, last
        filled = x.of(x.trace.builder.view(x.value, window(x.shape, starts, [1] * x.ndim, extents)))
        if opcode == "max":  # reading outside gives 0, which must not win
            number = arange(last) - windows.before
            inside = ((number >= 0) & (number < windows.size)).reshape(last, *(1,) * (x.ndim - axis - 1))
            filled = tracer.select(inside, filled, _least(x.dtype))
    front = (slice(None),) * axis
    total: Tracer | None = None
    for tap in range(windows.taps):
        start = tap * windows.dilation
        part = filled[(*front, slice(start, start + (windows.windows - 1) * windows.stride + 1, windows.stride))]
        total = part if total is None else tracer.binary(opcode, total, part)
    assert total is not None
    return total


def _least(dtype: DType) -> float | int:
    """Return the number of a dtype which every other one is at least."""
    if dtype.is_float:
        return -inf
    return int(np.iinfo(dtype.numpy).min) if dtype.is_integer else False


def _summed(x: Tracer, axis: int, windows: WindowAxis) -> Tracer:
    """Return the sums of windows along an axis, 0 outside of the images; long ones by a reduction."""
    if windows.taps <= _FEW_TAPS:
        return _folded(x, axis, windows, "add")
    shape = (*x.shape[:axis], windows.windows, *x.shape[axis + 1 :], windows.taps)
    index = [Affine(0, (Term(n),)) for n in range(x.ndim)]
    index[axis] = windows.pixel(axis, x.ndim)
    view = IndexMap(shape, tuple(index), windows.is_padded)
    return x.of(x.trace.builder.view(x.value, view)).sum(-1)


def _covered(axis: WindowAxis, *, padding: bool) -> bool:
    """Return whether all elements of all windows count."""
    end = (axis.windows - 1) * axis.stride + axis.taps - axis.before
    return end <= axis.size + axis.after if padding else axis.before == 0 and end <= axis.size


def _counts(axis: WindowAxis, *, padding: bool) -> Tracer:
    """Return how many elements of each window count: those of the image, and of its padding."""
    start = arange(axis.windows) * axis.stride - axis.before
    low, high = (-axis.before, axis.size + axis.after) if padding else (0, axis.size)
    end = tracer.binary("min", start + axis.taps, high)
    return end - tracer.binary("max", start, low)


def _adaptive_sizes(size: int | Sequence[int | None], rank: int, name: str) -> tuple[int | None, ...]:
    sizes = (size,) * rank if isinstance(size, int) else tuple(size)
    if len(sizes) != rank or any(number is not None and number < 1 for number in sizes):
        raise OperandMismatch(
            f"{name} of size {size}", hint=f"give a number of at least 1, or {rank}, or None to keep an extent"
        )
    return sizes


def by_parts(x: Tracer, sizes: Sequence[int], kind: str) -> Tracer:
    """Return the mean ("avg") or the greatest ("max") of each of `sizes` windows along the last axes."""
    first = x.ndim - len(sizes)
    uneven = [n for n, parts in enumerate(sizes) if x.shape[first + n] % parts]
    for n in reversed(uneven):
        x = _by_uneven_parts(x, first + n, sizes[n], kind)
    shape, axes = list(x.shape[:first]), list[int]()
    for extent, parts in zip(x.shape[first:], sizes, strict=True):
        shape.append(parts)
        if extent != parts:
            axes.append(len(shape))
            shape.append(extent // parts)
    if not axes:
        return x
    split = x.reshape(*shape)
    return split.mean(axes) if kind == "avg" else split.max(axes)


def _by_uneven_parts(x: Tracer, axis: int, parts: int, kind: str) -> Tracer:
    extent = x.shape[axis]
    bounds = [(i * extent // parts, -(-(i + 1) * extent // parts)) for i in range(parts)]
    taps = max(end - start for start, end in bounds)
    part = arange(parts)
    first, end = part * extent // parts, ((part + 1) * extent + (parts - 1)) // parts
    index = first[:, None] + arange(taps)
    ones = (1,) * (x.ndim - axis - 1)
    # Windows are as long as the longest: elements after the end of a shorter one do not count.
    inside = (index < end[:, None]).reshape(parts, taps, *ones)
    gathered = tracer.gather(x, tracer.binary("min", index, extent - 1), axis)
    if kind == "max":
        return tracer.select(inside, gathered, _least(x.dtype)).max(axis + 1)
    total = tracer.select(inside, gathered, 0).sum(axis + 1)
    return total / (end - first).astype(x.dtype).reshape(parts, *ones)
