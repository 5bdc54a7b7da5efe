"""The operators that random programs call, in NumPy and f64; on request each elementary step is off by a rounding."""

# NumPy's arrays of any dtype, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportIncompatibleMethodOverride=false

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from support.operators import Array

Axis = int | tuple[int, ...] | None


class Value(np.ndarray):
    """An array as programs see it: `.T` swaps the last two axes, `.at` updates.

    noise: draws the relative error of every elementary step; None for none.  It passes on to what is computed of it.
    """

    noise: np.random.Generator | None = None
    size_of_errors: float = 0.0

    def __array_finalize__(self, source: object) -> None:
        self.noise = getattr(source, "noise", None)
        self.size_of_errors = getattr(source, "size_of_errors", 0.0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Array, **keywords: Array) -> object:
        values = [each for each in inputs if isinstance(each, Value)]
        disturbed = next((each for each in values if each.noise is not None), values[0] if values else None)
        plain = [each.view(np.ndarray) if isinstance(each, Value) else each for each in inputs]
        if method == "reduce" and np.ndim(plain[0]) == 0 and keywords.get("axis") not in (None, (), 0):
            raise ValueError("a number has no axes")  # NumPy takes -1
        if method != "__call__" or ufunc is np.matmul:  # terms, so that sums that cancel are known for what they are
            plain = [np.asarray(valued(each, disturbed)) if np.ndim(each) else each for each in plain]
        keywords.pop("out", None)
        result = getattr(ufunc, method)(*plain, **keywords)
        return (
            tuple(valued(each, disturbed) for each in result)
            if isinstance(result, tuple)
            else valued(result, disturbed)
        )

    @property
    def T(self) -> "Value":  # noqa: N802 - as NumPy spells it
        return self.swapaxes(-1, -2)

    @property
    def at(self) -> "At":
        return At(self)

    def astype(self, dtype: Array, *_: object, **__: object) -> "Value":
        name = {"f32": "f8", "f64": "f8", "bf16": "f8", "i64": "i8", "i32": "i4"}.get(dtype, dtype)
        return super().astype(name).view(Value)

    def clip(self, low: Array = None, high: Array = None) -> "Value":
        return _clip(self, low, high)

    def squeeze(self, axis: Axis = None) -> "Value":
        return super().squeeze(axis).view(Value)


def valued(x: Array, source: Value | None = None) -> Value:
    """Return an array as a value, of f64 where it is of floats; what is computed of `source` has its noise."""
    array = np.asarray(x)
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)
        if source is not None and source.noise is not None:
            array = array * (1 + source.size_of_errors * source.noise.uniform(-1, 1, array.shape))
    value = np.asarray(array).view(Value)
    if source is not None:
        value.noise, value.size_of_errors = source.noise, source.size_of_errors
    return value


class At:
    """`x.at[index]`: the updates of JAX."""

    def __init__(self, x: Value, index: Array = None) -> None:
        self.x, self.index = x, index

    def __getitem__(self, index: Array) -> "At":
        return At(self.x, index)

    def _updated(self, update: Callable[..., object], values: Array) -> Value:
        copy = np.array(valued(self.x, self.x))
        update(copy, _plain(self.index), np.asarray(valued(values, self.x)))
        return valued(copy, self.x)

    def set(self, values: Array) -> Value:
        return self._updated(lambda x, index, v: x.__setitem__(index, v), values)

    def add(self, values: Array) -> Value:
        return self._updated(np.add.at, values)

    def multiply(self, values: Array) -> Value:
        return self._updated(np.multiply.at, values)

    def max(self, values: Array) -> Value:
        return self._updated(np.maximum.at, values)

    def min(self, values: Array) -> Value:
        return self._updated(np.minimum.at, values)


def _plain(index: Array) -> Array:
    """Return an index of arrays of NumPy: `ufunc.at` would ask a subclass."""
    if isinstance(index, tuple):
        return tuple(map(_plain, index))
    return np.asarray(index) if isinstance(index, Value) else index


# -- functions ----------------------------------------------------------------------------------------------------


def _erf(x: Array) -> Value:
    return valued(np.vectorize(math.erf, otypes=[float])(np.asarray(x)), _source(x))


def _source(*values: Array) -> Value | None:
    """Return the first value among operands, lists of them included."""
    for each in values:
        if isinstance(each, Value):
            return each
        if isinstance(each, list | tuple) and (inside := _source(*each)) is not None:
            return inside
    return None


def _valued_results(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of NumPy whose result is a value: `np.where` and others forget the classes of their operands."""

    def call(*operands: Array, **keywords: Array) -> Array:
        if len(operands) == 1 and isinstance(operands[0], bool):  # NumPy's functions of a bool are of 16 bits
            operands = (float(operands[0]),)
        return _as_values(function(*operands, **keywords), _source(*operands))

    return call


def _as_values(result: Array, source: Value | None) -> Array:
    if isinstance(result, list | tuple):
        return type(result)(_as_values(each, source) for each in result)
    if isinstance(result, Value) and (source is None or result.noise is source.noise):
        return result
    return valued(result, source) if isinstance(result, np.ndarray | np.generic) else result


def _sigmoid(x: Array) -> Array:
    return 0.5 * (np.tanh(0.5 * x) + 1)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mean(x: Array, axis: Axis = None, *, keepdims: bool = False) -> Array:
    total = np.add.reduce(x, axis=axis if axis is not None else tuple(range(np.ndim(x))), keepdims=keepdims)
    return total * (np.size(total) / np.size(x))


def _var(x: Array, axis: Axis = None, *, keepdims: bool = False, ddof: float = 0) -> Array:
    squares = np.square(x - _mean(x, axis, keepdims=True))
    mean = _mean(squares, axis, keepdims=keepdims)
    terms = np.size(x) / np.size(mean)
    return mean * (terms / (terms - ddof))


def _logsumexp(x: Array, axis: int = -1, *, keepdims: bool = False) -> Array:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def _softmax(x: Array, axis: int = -1) -> Array:
    return np.exp(x - _logsumexp(x, axis, keepdims=True))


def _layernorm(x: Array, weight: Array = 1.0, bias: Array = 0.0, *, axis: Axis = None, eps: float = 1e-5) -> Array:
    axis = tuple(range(-max(1, np.ndim(weight)), 0)) if axis is None else axis
    return (x - _mean(x, axis, keepdims=True)) / np.sqrt(_var(x, axis, keepdims=True) + eps) * weight + bias


def _rmsnorm(x: Array, weight: Array = 1.0, *, eps: float = 1e-6) -> Array:
    return x / np.sqrt(_mean(np.square(x), -1, keepdims=True) + eps) * weight


def _clip(x: Array, low: Array = None, high: Array = None) -> Array:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _gather(x: Array, index: Array, axis: int = 0) -> Value:
    """Give 0 where an index lies outside."""
    index, size = np.asarray(index), x.shape[axis]
    inside = (index >= -size) & (index < size)
    taken = np.take(x, np.where(inside, index, 0), axis)
    axis %= np.ndim(x)
    mask = inside.reshape((1,) * axis + inside.shape + (1,) * (np.ndim(x) - axis - 1))
    return valued(np.where(mask, np.asarray(taken), 0), _source(x))


def _scatter_add(x: Array, index: Array, values: Array, axis: int = 0) -> Array:
    return x.at[(slice(None),) * (axis % np.ndim(x)) + (index,)].add(values)


def _einsum(text: str, *operands: Array) -> Value:
    source = _source(*operands)
    return valued(np.einsum(text, *[np.asarray(valued(each, source)) for each in operands]), source)


def _sorted(x: Array, axis: int = -1, descending: bool = False) -> Array:
    rising = np.sort(x, axis)
    return np.flip(rising, axis) if descending else rising


def _top_k(x: Array, k: int, axis: int = -1) -> SimpleNamespace:
    order = np.argsort(-np.asarray(x), axis, kind="stable")
    indices = np.take(order, np.arange(k), axis)
    return SimpleNamespace(values=np.take_along_axis(x, indices, axis), indices=valued(indices))


def _attention(q: Array, k: Array, v: Array, *, causal: bool = False) -> Array:
    if q.ndim < 3 or len({each.ndim for each in (q, k, v)}) > 1:
        raise ValueError("heads, positions and features")
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool), scores.shape[-1] - scores.shape[-2])
        scores = np.where(seen, scores, -1e30)
    return _softmax(scores) @ v


def _conv1d(x: Array, weight: Array, bias: Array = 0.0, *, padding: int = 0) -> Array:
    padded = np.pad(np.asarray(x), ((0, 0), (0, 0), (padding, padding)))
    windows = valued(sliding_window_view(padded, weight.shape[-1], -1), _source(x))
    return _einsum("ncpk,ock->nop", windows, weight) + np.reshape(bias, (-1, 1))


def _pooled(reduce: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, size: reduce(
        valued(sliding_window_view(np.asarray(x), size, -1)[..., ::size, :], _source(x)), axis=-1
    )


def _scan(
    f: Callable[[Array, Array], tuple[Array, Array]], init: Array, xs: Array, *, reverse: bool = False
) -> tuple[Array, Array]:
    outputs: list[Array] = []
    for k in range(len(xs))[:: -1 if reverse else 1]:
        init, output = f(init, xs[k])
        outputs.append(output)
    return init, np.stack(outputs[:: -1 if reverse else 1])


def _while(condition: Callable[[Array], Array], body: Callable[[Array], Array], x: Array) -> Array:
    for _ in range(100):
        if not condition(x):
            return x
        x = body(x)
    raise ValueError("a loop without end")


def _split(x: Array, parts: int | Sequence[int], axis: int = -1) -> Array:
    if not isinstance(parts, int) and sum(parts) != x.shape[axis]:
        raise ValueError("sizes that do not add up")
    return np.split(x, parts if isinstance(parts, int) else np.cumsum(parts)[:-1], axis)


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _one_hot(index: Array, classes: int, dtype: str = "f32") -> Value:
    return valued((np.asarray(index)[..., None] == np.arange(classes)).astype(float))


def _nan_to_num(x: Array) -> Array:
    return np.where(np.isnan(x), 0.0, x)


def _pad(x: Array, widths: Array, value: float = 0) -> Value:
    return valued(np.pad(np.asarray(x), widths, constant_values=value), _source(x))


def _outer(a: Array, b: Array) -> Array:
    if np.ndim(a) != 1 or np.ndim(b) != 1:
        raise ValueError("an outer product is one of vectors")
    return np.multiply.outer(a, b)


def _triangle(of_numpy: Callable[..., Array]) -> Callable[..., Array]:
    def triangle(x: Array, k: int = 0) -> Array:
        if np.ndim(x) < 2:
            raise ValueError("no diagonal")
        return of_numpy(x, k)

    return triangle


def _repeat(x: Array, repeats: int, axis: int) -> Array:
    if np.ndim(x) == 0:
        raise ValueError("a number has no axes")  # NumPy takes -1
    return np.repeat(x, repeats, axis)


def _cast(x: Array, dtype: str) -> Value:
    return x.astype(dtype)


_NUMPY: Final = (
    "abs", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "floor_divide", "log", "log1p", "log2", "log10",
    "maximum", "minimum", "mod", "power", "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
    "radians", "signbit", "heaviside", "fmax", "fmod", "logaddexp2", "copysign", "hypot", "logaddexp", "arctan2", "all", "any", "sum", "max", "min", "prod", "broadcast_to", "matmul",
    "expand_dims", "flip", "moveaxis", "reshape", "roll", "squeeze", "stack", "swapaxes",
    "take_along_axis", "tile", "transpose", "where", "count_nonzero", "logical_and", "logical_or",
    "logical_not", "isnan", "isfinite", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "cbrt",
)  # fmt: skip
"""Operators that are NumPy's functions of the same names."""

_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = dict(
    {name: getattr(np, name) for name in _NUMPY},
    round=np.rint, rsqrt=lambda x: 1 / np.sqrt(x), erf=_erf, sigmoid=_sigmoid, silu=lambda x: x * _sigmoid(x),
    gelu=lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), relu=lambda x: np.maximum(x, 0), softplus=_softplus,
    mish=lambda x: x * np.tanh(_softplus(x)), elu=_elu, leaky_relu=lambda x: np.where(x > 0, x, 0.01 * x),
    hardswish=lambda x: x * _clip(x + 3, 0, 6) / 6, relu6=lambda x: _clip(x, 0, 6), softsign=lambda x: x / (1 + np.abs(x)),
    clip=_clip, mean=_mean, var=_var, std=lambda *x, **more: np.sqrt(_var(*x, **more)), argmax=lambda x, axis=-1: np.argmax(x, axis),
    argmin=lambda x, axis=-1: np.argmin(x, axis), cumsum=lambda x, axis=-1: np.add.accumulate(x, axis),
    cumprod=lambda x, axis=-1: np.multiply.accumulate(x, axis), logsumexp=_logsumexp, softmax=_softmax,
    log_softmax=lambda x, axis=-1: x - _logsumexp(x, axis, keepdims=True), layernorm=_layernorm, rmsnorm=_rmsnorm,
    gather=_gather, scatter_add=_scatter_add, einsum=_einsum, sort=_sorted,
    argsort=lambda x, axis=-1: np.argsort(np.asarray(x), axis, kind="stable"), top_k=_top_k, flash_attention=_attention,
    conv1d=_conv1d, max_pool1d=_pooled(np.max), avg_pool1d=_pooled(_mean), scan=_scan, while_=_while,
    cond=lambda pred, f, g, *operands: f(*operands) if pred else g(*operands), split=_split, one_hot=_one_hot,
    concat=lambda arrays, axis=0: np.concatenate(arrays, axis), arange=lambda n: valued(np.arange(n)),
    zeros=lambda shape, dtype="f32": valued(np.zeros(shape)), ones=lambda shape, dtype="f32": valued(np.ones(shape)),
    full=lambda shape, value, dtype="f32": valued(np.full(shape, value)), cast=_cast, nan_to_num=_nan_to_num, pad=_pad,
    mse=lambda a, b: _mean(np.square(a - b)), linear=lambda x, w, b=0.0: x @ w.swapaxes(-1, -2) + b,
    cross_entropy=lambda x, y: _mean(_logsumexp(x) - np.take_along_axis(x, y[..., None], -1)[..., 0]),
    outer=_outer, repeat=_repeat, tril=_triangle(np.tril), triu=_triangle(np.triu), at=lambda x: At(valued(x)), unfold=lambda x, axis, size, step=1: np.moveaxis(
        valued(sliding_window_view(np.asarray(x), size, axis), _source(x)), 0, 0
    ) if step == 1 else None, flatten=lambda x, start=0, end=-1: x.reshape(*x.shape[:start], -1),
    normalize=lambda x, axis=1: x / np.maximum(np.sqrt(np.sum(np.square(x), axis=axis, keepdims=True)), 1e-12),
)  # fmt: skip

REFERENCE: Final = SimpleNamespace(**{name: _valued_results(each) for name, each in _FUNCTIONS.items()})
"""`op`, in NumPy."""
