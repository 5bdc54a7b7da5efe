"""Resampling of images to another size: nearest pixels, lines, cubics, means."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import f64, i64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import broadcast
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arrays import arange
from tessera.ops.definitions.floats import widened
from tessera.ops.images.pooling import by_parts

_RANKS: Final = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,),
    "bicubic": (2,), "area": (1, 2, 3),
}  # fmt: skip
"""Modes, each with the numbers of spatial axes that it takes."""
_CUBIC: Final = -0.75
"""The free parameter of Keys' cubic convolution, as PyTorch has it."""


@operator("interpolate")
def interpolate(
    x: Array, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", *, align_corners: bool = False,
) -> Array:  # fmt: skip
    """Return images of another size, as PyTorch's `interpolate`.

    x: [batch, channels, ...], with one to three spatial axes; floats of 16 bits are computed in f32, and of integers
    the modes that weight pixels make f32
    size: of the result, a number or one per spatial axis; scale_factor: of the size instead, rounded down
    mode: "nearest" (the pixel at floor(i / scale)), "nearest-exact" (the pixel whose center is nearest), "linear",
    "bilinear", "trilinear", "bicubic" (Keys 1981, a = -0.75), or "area" (means, as `adaptive_avg_pool2d`)
    align_corners: whether the centers of the first and the last pixels stay where they are, instead of their corners
    Raises OperandMismatch.
    """
    images = as_tracer(x)
    rank = images.ndim - 2
    if mode not in _RANKS:
        raise OperandMismatch(f"interpolate has no mode {mode!r}", hint=f"choose from {', '.join(_RANKS)}")
    if rank not in _RANKS[mode] or 0 in images.shape[2:]:
        axes = " or ".join(str(2 + number) for number in _RANKS[mode])
        raise OperandMismatch(
            f"mode={mode!r} of {images.shape}", hint=f"give [batch, channels, ...] with {axes} axes, none of extent 0"
        )
    if align_corners and mode in ("nearest", "nearest-exact", "area"):
        raise OperandMismatch(f"align_corners of mode={mode!r}, which weights no pixels", hint="leave it out")
    sizes, steps = _sizes(images.shape[2:], size, scale_factor)
    if mode == "area":
        wide, dtype = widened(images)
        return by_parts(wide, sizes, "avg").astype(dtype)
    if mode.startswith("nearest"):
        for n, step in enumerate(steps):
            images = _nearest(images, 2 + n, sizes[n], step, centered=mode == "nearest-exact")
        return images
    wide, dtype = widened(images)
    weights = _cubic if mode == "bicubic" else _linear
    for n in reversed(range(rank)):
        wide = _weighted(wide, 2 + n, sizes[n], steps[n], weights, align_corners=align_corners)
    return wide.astype(dtype)


def _sizes(
    extents: Sequence[int], size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None
) -> tuple[list[int], list[float]]:
    """Return the extents of the result, and the pixels of the image per pixel of the result."""
    if (size is None) == (scale_factor is None):
        raise OperandMismatch("interpolate to no size, or to two", hint="give size= or scale_factor=")
    numbers = size if size is not None else scale_factor
    per_axis = [numbers] * len(extents) if isinstance(numbers, int | float) else list(numbers or ())
    if len(per_axis) != len(extents) or any(not number > 0 or math.isinf(number) for number in per_axis):
        raise OperandMismatch(
            f"{'size' if size is not None else 'scale_factor'}={numbers} of {len(extents)} spatial axes",
            hint="give one number above 0, or one per spatial axis",
        )
    if size is not None:
        sizes = [int(number) for number in per_axis]
        return sizes, [extent / number for extent, number in zip(extents, sizes, strict=True)]
    sizes = [math.floor(extent * number) for extent, number in zip(extents, per_axis, strict=True)]
    if min(sizes) < 1:
        raise OperandMismatch(f"scale_factor={scale_factor} leaves no pixel of {tuple(extents)}")
    return sizes, [1.0 / number for number in per_axis]


def _nearest(x: Tracer, axis: int, size: int, step: float, *, centered: bool) -> Tracer:
    extent = x.shape[axis]
    if size % extent == 0 and step * size == extent:  # both kinds repeat pixels then, which moves nothing
        shape = (*x.shape[: axis + 1], size // extent, *x.shape[axis + 1 :])
        places = [n if n <= axis else n + 1 for n in range(x.ndim)]
        repeated = x.of(x.trace.builder.view(x.value, broadcast(x.shape, places, shape)))
        return repeated.reshape(*x.shape[:axis], size, *x.shape[axis + 1 :])
    number = arange(size).astype(f64)
    index = tracer.unary("floor", (number + 0.5) * step if centered else number * step).astype(i64)
    return tracer.gather(x, tracer.binary("min", index, extent - 1), axis)


def _weighted(
    x: Tracer, axis: int, size: int, step: float, weights: Callable[[Tracer], Sequence[Tracer]], *, align_corners: bool
) -> Tracer:
    """Return the sums of neighbors along an axis, by weights of the distance from the first of the middle two."""
    extent = x.shape[axis]
    number = arange(size).astype(f64)
    if align_corners:
        center = number * ((extent - 1) / (size - 1) if size > 1 else 0.0)
    else:
        center = (number + 0.5) * step - 0.5
        # Before the first pixel lines are level, and cubics read the first pixel again.
        center = tracer.binary("max", center, 0.0) if weights is _linear else center
    first = tracer.unary("floor", center)
    ones = (1,) * (x.ndim - axis - 1)
    terms = weights(center - first)
    offset = 1 - len(terms) // 2
    total: Tracer | None = None
    for n, weight in enumerate(terms):
        index = tracer.binary("max", tracer.binary("min", first.astype(i64) + (offset + n), extent - 1), 0)
        term = tracer.gather(x, index, axis) * weight.astype(x.dtype).reshape(size, *ones)
        total = term if total is None else total + term
    assert total is not None
    return total


def _linear(distance: Tracer) -> Sequence[Tracer]:
    return 1.0 - distance, distance


def _cubic(distance: Tracer) -> Sequence[Tracer]:
    """Return the weights of four pixels at -1, 0, 1 and 2 (Keys, "Cubic convolution interpolation", 1981)."""
    a = _CUBIC

    def near(t: Tracer) -> Tracer:
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0

    def far(t: Tracer) -> Tracer:
        return ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a

    return far(distance + 1.0), near(distance), near(1.0 - distance), far(2.0 - distance)
