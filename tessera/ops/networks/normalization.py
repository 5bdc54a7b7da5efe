"""Normalizations: to mean 0 and variance 1, by a root mean square or by a norm; computed in f32, rounded once."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import axes_of
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.floats import widened

Axes: TypeAlias = int | Sequence[int] | None


@operator("layernorm")
def layernorm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, axis: Axes = None, eps: float = 1e-5
) -> Array:
    """Normalize to mean 0 and variance 1 along axes, then weight and shift; computed in f32, rounded once.

    axis: None: the last axis, or as many as weight and bias have, which then have the shape of these (as PyTorch's
      `normalized_shape`).  Raises OperandMismatch for other shapes.
    """
    trace = trace_of(x, weight, bias)
    wide, dtype = widened(x, trace)
    axes = _normalized_axes(wide, axis, weight, bias)
    centred = wide - wide.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    normalized = centred * tracer.unary("rsqrt", variance + eps)
    normalized = normalized if weight is None else normalized * as_tracer(weight, normalized.trace).astype(wide.dtype)
    normalized = normalized if bias is None else normalized + as_tracer(bias, normalized.trace).astype(wide.dtype)
    return normalized.astype(dtype)


@operator("rmsnorm")
def rmsnorm(x: Array, weight: Array | None = None, *, axis: Axes = None, eps: float = 1e-6) -> Array:
    """Divide by the root mean square along axes, then weight (Zhang and Sennrich 2019); computed in f32.

    axis: None: the last axis, or as many as weight has, as in `layernorm`.
    """
    trace = trace_of(x, weight)
    wide, dtype = widened(x, trace)
    axes = _normalized_axes(wide, axis, weight)
    normalized = wide * tracer.unary("rsqrt", (wide * wide).mean(axes, keepdims=True) + eps)
    normalized = normalized if weight is None else normalized * as_tracer(weight, trace).astype(wide.dtype)
    return normalized.astype(dtype)


def _normalized_axes(x: Tracer, axis: Axes, *gains: Array | None) -> tuple[int, ...]:
    """Return the axes that a normalization works along, from the shapes of its weights where they are not named."""
    if axis is not None:
        return axes_of(x.ndim, axis)
    shapes = [as_tracer(each, x.trace).shape for each in gains if each is not None]
    count = max([1, *map(len, shapes)])
    for shape in shapes:
        if count > 1 and shape != x.shape[-count:]:
            raise OperandMismatch(
                f"weights of {shape} and x of {x.shape} do not broadcast together: weights of several axes have the "
                "shape of the last axes, which are normalized",
                hint="name the axes to normalize: axis=-1",
            )
    return axes_of(x.ndim, range(-count, 0))


layernorm_safe = layernorm
"""The documents' name: the variance is that of the centred row, so a large mean does no harm."""
rmsnorm_safe = rmsnorm
"""The documents' name: rows of zeros give zeros."""


@operator("batch_norm")
def batch_norm(
    x: Array, mean: Array | None = None, var: Array | None = None, weight: Array | None = None,
    bias: Array | None = None, *, eps: float = 1e-5, axis: int = 1,
) -> Array:  # fmt: skip
    """Normalize each channel to mean 0 and variance 1, then weight and shift it (Ioffe and Szegedy 2015).

    x: [batch, channels, ...], or with the channels along another `axis`; the others: [channels]
    mean, var: of a whole data set, as they are used for inference; without them those of the batch, over all axes but
      the channels', the variance over the count, from what is left when the mean is taken off
    Raises OperandMismatch for one of mean and var without the other, for shapes that differ from [channels], and for
    one value a channel, which has no variance.
    """
    trace = trace_of(x, mean, var, weight, bias)
    wide, dtype = widened(x, trace)
    channel_axis = axes_of(wide.ndim, axis)[0]
    if (mean is None) != (var is None):
        present, missing = ("var", "mean") if mean is None else ("mean", "var")
        raise OperandMismatch(f"batch_norm has {present} and no {missing}", hint="give both, or none of them")
    if mean is None or var is None:
        centred, variance = _centred(wide, [n for n in range(wide.ndim) if n != channel_axis])
    else:
        centred = wide - _per_channel(mean, "mean", wide, channel_axis)
        variance = _per_channel(var, "var", wide, channel_axis)
    return _gained(centred * tracer.unary("rsqrt", variance + eps), weight, bias, channel_axis, dtype)


@operator("group_norm")
def group_norm(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Normalize groups of channels of each example to mean 0 and variance 1 (Wu and He 2018), then weight and shift.

    x: [batch, channels, ...]; weight, bias: [channels].  Raises OperandMismatch for channels that do not make `groups`
    equal groups, for other shapes, and for one value a group, which has no variance.
    """
    wide, dtype = widened(x, trace_of(x, weight, bias))
    if wide.ndim < 2:
        raise OperandMismatch(f"x of {wide.shape} has no channels", hint="give [batch, channels, ...]")
    batch, channels, *extents = wide.shape
    if groups < 1 or channels % groups:
        raise OperandMismatch(f"{channels} channels of {wide.shape} do not make {groups} equal groups")
    split = wide.reshape(batch, groups, channels // groups, *extents)
    centred, variance = _centred(split, range(2, split.ndim))
    normalized = (centred * tracer.unary("rsqrt", variance + eps)).reshape(*wide.shape)
    return _gained(normalized, weight, bias, 1, dtype)


@operator("instance_norm")
def instance_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    """Normalize each channel of each example to mean 0 and variance 1 (Ulyanov et al. 2016), then weight and shift.

    x: [batch, channels, ...], with an axis or more after the channels; weight, bias: [channels]
    Raises OperandMismatch for other shapes, and for one value a channel, which has no variance.
    """
    wide, dtype = widened(x, trace_of(x, weight, bias))
    if wide.ndim < 3:
        raise OperandMismatch(
            f"x of {wide.shape} has no axis after the channels", hint="give [batch, channels, ...], one axis more"
        )
    centred, variance = _centred(wide, range(2, wide.ndim))
    return _gained(centred * tracer.unary("rsqrt", variance + eps), weight, bias, 1, dtype)


def _centred(x: Tracer, axes: Sequence[int]) -> tuple[Tracer, Tracer]:
    """Return x without its mean along axes, and its variance, which keeps these axes.

    Raises OperandMismatch for one value, which is its own mean.
    """
    if math.prod(x.shape[axis] for axis in axes) == 1:
        raise OperandMismatch(
            f"statistics along {tuple(axes)} of {x.shape}: one value has no variance",
            hint="give more values, or batch_norm the mean and var of a data set",
        )
    centred = x - x.mean(axes, keepdims=True)
    return centred, (centred * centred).mean(axes, keepdims=True)


def _gained(x: Tracer, weight: Array | None, bias: Array | None, axis: int, dtype: DType) -> Tracer:
    """Return x weighted and shifted by channel, rounded."""
    weighted = x if weight is None else x * _per_channel(weight, "weight", x, axis)
    shifted = weighted if bias is None else weighted + _per_channel(bias, "bias", x, axis)
    return shifted.astype(dtype)


def _per_channel(value: Array, name: str, x: Tracer, axis: int) -> Tracer:
    """Return one number a channel along the channels' axis, in the dtype of x.  Raises OperandMismatch."""
    numbers = as_tracer(value, x.trace)
    if numbers.shape != (x.shape[axis],):
        raise OperandMismatch(
            f"a {name} of {numbers.shape} for {x.shape[axis]} channels along axis {axis} of {x.shape}",
            hint=f"give {name} the shape ({x.shape[axis]},)",
        )
    return numbers.astype(x.dtype).reshape(*(x.shape[axis] if n == axis else 1 for n in range(x.ndim)))


@operator("normalize")
def normalize(x: Array, p: float = 2.0, axis: Axes = 1, eps: float = 1e-12) -> Array:
    """Divide by the p-norm along axes, or by `eps` where that is greater; a vector of zeros stays.

    p: any number from 1 on, also infinity: sum(|x|^p)^(1 / p), relative to the greatest |x| but for p of 1 and 2
    The derivative at a vector of zeros is 1 / eps.  Computed in f32 for shorter floats; a sum of squares beyond the
    range of f32 or f64 gives 0, as in PyTorch.  Raises OperandMismatch for another p, and an axis that is not there.
    """
    if not p >= 1:
        raise OperandMismatch(f"there is no {p}-norm", hint="give 1 or more, or math.inf")
    wide, dtype = widened(x)
    axes_of(wide.ndim, axis)
    return (wide / tracer.binary("max", _norm(wide, p, axis), eps)).astype(dtype)


def _norm(x: Tracer, p: float, axis: Axes) -> Tracer:
    """Return the p-norm along axes, which are kept; of zeros its derivative is 0."""
    magnitude = abs(x)
    if p == 1:
        return magnitude.sum(axis, keepdims=True)
    if p == 2:
        return _root(x * x, 2.0, axis)
    top = magnitude.max(axis, keepdims=True)
    if p == math.inf:
        return top
    return top * _root(tracer.binary("pow", magnitude / tracer.select(top == 0.0, 1.0, top), p), p, axis)


def _root(powers: Tracer, p: float, axis: Axes) -> Tracer:
    """Return the p-th root of sums of powers; a sum of 0 has the derivative 0, not infinity."""
    total = powers.sum(axis, keepdims=True)
    is_zero = total == 0.0
    safe = tracer.select(is_zero, 1.0, total)
    return tracer.select(is_zero, 0.0, tracer.unary("sqrt", safe) if p == 2 else tracer.binary("pow", safe, 1.0 / p))
