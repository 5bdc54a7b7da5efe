"""Operators on images by their definitions, in f64 and channels first: one tap, or one window, after the other."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Pair = tuple[int, int]


def correlated(
    x: Values, w: Values, *, stride: Sequence[int], padding: Sequence[Pair], dilation: Sequence[int], groups: int = 1,
    spacing: Sequence[int] | None = None,
) -> Values:  # fmt: skip
    """Return the convolution of x [n, c, ...] with w [f, c / groups, ...]; spacing: 1 more than zeros between pixels."""
    rank = x.ndim - 2
    spacing = spacing or (1,) * rank
    front = (slice(None), slice(None))
    spread = np.zeros((*x.shape[:2], *(s * (n - 1) + 1 for s, n in zip(spacing, x.shape[2:], strict=True))))
    spread[(*front, *(slice(None, None, s) for s in spacing))] = x
    filled = np.pad(spread, [(0, 0), (0, 0), *padding])
    sizes = [(filled.shape[2 + n] - dilation[n] * (w.shape[2 + n] - 1) - 1) // stride[n] + 1 for n in range(rank)]
    y, each, inner = np.zeros((len(x), len(w), *sizes)), len(w) // groups, w.shape[1]
    for tap in np.ndindex(*w.shape[2:]):
        starts = [tap[n] * dilation[n] for n in range(rank)]
        part = filled[
            (*front, *(slice(s, s + (sizes[n] - 1) * stride[n] + 1, stride[n]) for n, s in enumerate(starts)))
        ]
        for g in range(groups):
            factor = w[(slice(g * each, (g + 1) * each), slice(None), *tap)]
            y[:, g * each : (g + 1) * each] += np.einsum(
                "nc...,fc->nf...", part[:, g * inner : (g + 1) * inner], factor
            )
    return y


def transposed(
    x: Values, w: Values, *, stride: Sequence[int], padding: Sequence[int], output_padding: Sequence[int],
    dilation: Sequence[int], groups: int = 1,
) -> Values:  # fmt: skip
    """Return the transposed convolution of x [n, c, ...] with w [c, f / groups, ...]: each pixel adds its taps."""
    rank, inner, each = x.ndim - 2, x.shape[1] // groups, w.shape[1]
    sizes = [
        (x.shape[2 + n] - 1) * stride[n] + dilation[n] * (w.shape[2 + n] - 1) + output_padding[n] + 1
        for n in range(rank)
    ]
    y = np.zeros((len(x), each * groups, *sizes))
    for pixel in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            at = tuple(pixel[n] * stride[n] + tap[n] * dilation[n] for n in range(rank))
            for g in range(groups):
                channels = slice(g * inner, (g + 1) * inner)
                y[(slice(None), slice(g * each, (g + 1) * each), *at)] += (
                    x[(slice(None), channels, *pixel)] @ w[(channels, slice(None), *tap)]
                )
    return y[(slice(None), slice(None), *(slice(cut, size - cut) for cut, size in zip(padding, sizes, strict=True)))]


def window_count(size: int, taps: int, stride: int, padding: int, dilation: int = 1, *, partial: bool = False) -> int:
    """Return how many windows there are along an axis, by PyTorch's rule for its ceil mode."""
    rest = size + 2 * padding - dilation * (taps - 1) - 1
    count = (-(-rest // stride) if partial else rest // stride) + 1
    return count - 1 if partial and (count - 1) * stride >= size + padding else count


def pooled(
    x: Values, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], *, kind: str,
    dilation: Sequence[int] | None = None, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor: int | None = None,
) -> Values:  # fmt: skip
    """Return the greatest ("max") or the means ("avg") of windows along the last axes of x."""
    rank = len(size)
    steps = dilation or (1,) * rank
    extents = x.shape[-rank:]
    counts = [
        window_count(extents[n], size[n], stride[n], padding[n], steps[n], partial=ceil_mode) for n in range(rank)
    ]
    y = np.zeros((*x.shape[:-rank], *counts))
    for window in np.ndindex(*counts):
        starts = [window[n] * stride[n] - padding[n] for n in range(rank)]
        inside = [
            [at for at in range(starts[n], starts[n] + steps[n] * size[n], steps[n]) if 0 <= at < extents[n]]
            for n in range(rank)
        ]
        part = x[(..., *np.ix_(*inside))]
        axes = tuple(range(-rank, 0))
        if kind == "max":
            y[(..., *window)] = part.max(axes, initial=-math.inf)
            continue
        padded = [min(starts[n] + size[n], extents[n] + padding[n]) - starts[n] for n in range(rank)]
        count = math.prod(padded if count_include_pad else map(len, inside))
        y[(..., *window)] = part.sum(axes) / (divisor or count)
    return y


def adaptively_pooled(x: Values, size: Sequence[int], *, kind: str) -> Values:
    """Return the greatest or the means of `size` windows along the last axes of x."""
    rank, extents = len(size), x.shape[-len(size) :]
    y = np.zeros((*x.shape[:-rank], *size))
    for window in np.ndindex(*size):
        part = x[(..., *(slice(i * n // parts, -(-(i + 1) * n // parts)) for i, n, parts in
                         zip(window, extents, size, strict=True)))]  # fmt: skip
        y[(..., *window)] = (part.max if kind == "max" else part.mean)(tuple(range(-rank, 0)))
    return y


def resampled(x: Values, axis: int, size: int, scale: float, kind: str, *, align_corners: bool = False) -> Values:
    """Return x with another extent along an axis; scale: elements of x per element of the result."""
    extent, weights = x.shape[axis], np.zeros((size, x.shape[axis]))
    for i in range(size):
        center = (i + 0.5) * scale - 0.5
        if align_corners:
            center = i * (extent - 1) / (size - 1) if size > 1 else 0.0
        if kind == "nearest":
            taps = [(math.floor(i * scale), 1.0)]
        elif kind == "nearest-exact":
            taps = [(math.floor((i + 0.5) * scale), 1.0)]
        elif kind == "linear":
            center = max(center, 0.0)
            part = center - math.floor(center)
            taps = [(math.floor(center), 1 - part), (math.floor(center) + 1, part)]
        else:
            taps = [(math.floor(center) + n, _keys(center - math.floor(center) - n)) for n in (-1, 0, 1, 2)]
        for at, weight in taps:
            weights[i, min(max(at, 0), extent - 1)] += weight
    return np.moveaxis(np.tensordot(weights, x, (1, axis)), 0, axis)


def _keys(distance: float, a: float = -0.75) -> float:
    """Return the weight of a pixel by Keys' cubic."""
    t = abs(distance)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0
