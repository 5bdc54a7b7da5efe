"""Operators of neural networks: softmax, attention, losses, embeddings, steps of optimizers."""

import math
from collections.abc import Sequence

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import i64
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import working
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer, contraction, indices
from tessera.ops.definitions.arrays import arange
from tessera.ops.definitions.floats import widened


@operator("softmax")
def softmax(x: Array, axis: int = -1) -> Array:
    """Return exp(x) over its sum along an axis, relative to the maximum; computed in f32, rounded once."""
    wide, dtype = widened(x)
    weights = tracer.unary("exp", wide - wide.max(axis, keepdims=True))
    return (weights / weights.sum(axis, keepdims=True)).astype(dtype)


@operator("softmax_safe")
def softmax_safe(x: Array, axis: int = -1) -> Array:
    """Return the softmax; rows whose elements are all -inf (masked) give 0 instead of NaN."""
    wide, dtype = widened(x)
    top = wide.max(axis, keepdims=True)
    weights = tracer.unary("exp", wide - tracer.select(top == -math.inf, 0.0, top))
    total = weights.sum(axis, keepdims=True)
    return (weights / tracer.select(total == 0.0, 1.0, total)).astype(dtype)


@operator("logsumexp")
def logsumexp(x: Array, axis: int = -1, *, keepdims: bool = False) -> Array:
    """Return log(sum(exp(x))) along an axis, relative to the maximum."""
    wide, dtype = widened(x)
    top, _, log_total = _relative_to_maximum(wide, axis)
    # As a number, not as the maximum itself: the result does not depend on what is subtracted, which spares the
    # derivative of the maximum.
    result = tracer.select(top == -math.inf, -math.inf, top + log_total).astype(dtype)
    return result if keepdims else result.reshape(*(e for n, e in enumerate(result.shape) if n != axis % result.ndim))


def _relative_to_maximum(x: Tracer, axis: int) -> tuple[Tracer, Tracer, Tracer]:
    """Return the maximum along an axis, x less it, and log(sum(exp(x - max))), infinite where the maximum is +inf."""
    top = x.max(axis, keepdims=True)
    shifted = x - top
    total = tracer.unary("exp", shifted).sum(axis, keepdims=True)  # as softmax has it, so that both share a loop
    # inf - inf is NaN; NaN stays NaN.
    return top, shifted, tracer.select(top == math.inf, math.inf, tracer.unary("log", total))


@operator("log_softmax")
def log_softmax(x: Array, axis: int = -1) -> Array:
    """Return x - logsumexp(x) along an axis; computed in f32, rounded once.

    As (x - max) - log(sum(exp(x - max))): x less a large logsumexp would lose the digits of what is small.
    """
    wide, dtype = widened(x)
    _, shifted, log_total = _relative_to_maximum(wide, axis)
    return (shifted - log_total).astype(dtype)


@operator("split_qkv")
def split_qkv(qkv: Array, heads: int) -> tuple[Array, Array, Array]:
    """Split [..., length, 3 * heads * width] into queries, keys and values [..., heads, length, width]."""
    given = as_tracer(qkv)
    if given.ndim < 2 or heads < 1 or given.shape[-1] % (3 * heads):
        raise OperandMismatch(f"{given.shape} does not hold queries, keys and values of {heads} heads")
    *batch, length, whole = given.shape
    width = whole // (3 * heads)
    split = given.reshape(*batch, length, 3, heads, width)
    rank = len(batch)
    order = (*range(rank), rank + 1, rank, rank + 2)
    parts = [split[(*(slice(None),) * (rank + 1), number)].transpose(*order) for number in range(3)]
    return parts[0], parts[1], parts[2]


@operator("join_heads")
def join_heads(x: Array) -> Array:
    """Return [..., length, heads * width] of [..., heads, length, width]."""
    given = as_tracer(x)
    if given.ndim < 3:
        raise OperandMismatch(f"{given.shape} has no axes of heads, positions and elements")
    *batch, heads, length, width = given.shape
    rank = len(batch)
    return given.transpose(*range(rank), rank + 1, rank, rank + 2).reshape(*batch, length, heads * width)


@operator("flash_attention")
def flash_attention(  # noqa: PLR0913 - variants of one computation
    q: Array, k: Array, v: Array, *, causal: bool = False, scale: float | None = None, mask: Array | None = None,
    bias: Array | None = None, softcap: float | None = None, window: int | None = None,
) -> Array:  # fmt: skip
    """Return softmax(scale q k^T + bias) v over the keys that each query sees.

    q: [..., heads, queries, width]; k, v: [..., key heads, keys, width]; heads share key heads evenly
    causal: query i sees the keys up to i + (keys - queries); window: and no more than that many keys before
    mask: bool, broadcast to [..., heads, queries, keys]: what is seen; bias: added to the scores
    softcap: scores become softcap * tanh(scores / softcap)
    Scores and weights are f32; weights are rounded to v's dtype before they are multiplied.  Queries that see no key
    give 0.  Raises OperandMismatch.
    """
    trace = trace_of(q, k, v)
    query, key, value = as_tracer(q, trace), as_tracer(k, trace), as_tracer(v, trace)
    _check_attention(query, key, value)
    if window is not None and window < 1:
        raise OperandMismatch(f"a window of {window} keys", hint="give 1 or more, or leave it out for all")
    *batch, heads, queries, width = query.shape
    groups, keys = key.shape[-3], key.shape[-2]
    rank = len(batch)
    shared = query.reshape(*batch, groups, heads // groups, queries, width)
    b = tuple(range(rank))
    g, h, i, j, d = range(rank, rank + 5)
    labels = ((*b, g, h, i, d), (*b, g, j, d))
    scores = contraction(shared, key, labels, (*b, g, h, i, j), dtype=working(query.dtype))
    scores = scores * (1 / math.sqrt(width) if scale is None else scale)
    if softcap is not None:
        scores = softcap * tracer.unary("tanh", scores * (1 / softcap))
    if bias is not None:
        scores = scores + _grouped(as_tracer(bias, trace), scores.shape, heads)
    seen = _visible(queries, keys, causal=causal, window=window)
    if mask is not None:
        given = _grouped(as_tracer(mask, trace), scores.shape, heads)
        seen = given if seen is None else seen & given
    if seen is not None:
        scores = tracer.select(seen, scores, -math.inf)
    weights = softmax_safe(scores).astype(value.dtype)
    made = contraction(weights, value, ((*b, g, h, i, j), (*b, g, j, d)), (*b, g, h, i, d))
    return made.reshape(*batch, heads, queries, value.shape[-1])


def _check_attention(query: Array, key: Array, value: Array) -> None:
    if query.ndim < 3 or key.ndim != query.ndim or value.ndim != query.ndim:
        raise OperandMismatch(f"queries {query.shape}, keys {key.shape}, values {value.shape}: give all the same axes")
    if key.shape[:-1] != value.shape[:-1] or query.shape[:-3] != key.shape[:-3] or query.shape[-1] != key.shape[-1]:
        raise OperandMismatch(f"queries {query.shape}, keys {key.shape} and values {value.shape} do not fit")
    if query.shape[-3] % key.shape[-3]:
        raise OperandMismatch(f"{query.shape[-3]} query heads cannot share {key.shape[-3]} key heads evenly")


def _grouped(x: Array, scores: Sequence[int], heads: int) -> Array:
    """Return a bias or a mask with the heads split, as the scores have them."""
    if x.ndim < 3:
        return x
    *batch, mine, rows, columns = x.shape
    groups, share = scores[-4], scores[-3]
    if mine == heads:
        return x.reshape(*batch, groups, share, rows, columns)
    return x.reshape(*batch, mine, 1, rows, columns)


def _visible(queries: int, keys: int, *, causal: bool, window: int | None) -> Array | None:
    """Return which keys a query sees, as [queries, keys]; None: all."""
    if not causal and window is None:
        return None
    i, j = arange(queries)[:, None] + (keys - queries), arange(keys)[None, :]
    if window is None:
        return j <= i
    near = j > i - window
    return near & (j <= i) if causal else near & (j < i + window)


@operator("mse")
def mse(prediction: Array, target: Array) -> Array:
    """Return the mean of squared differences, in f32 or f64."""
    trace = trace_of(prediction, target)
    wide, _ = widened(as_tracer(prediction, trace) - target, trace)
    return (wide * wide).mean()


@operator("cross_entropy")
def cross_entropy(logits: Array, target: Array) -> Array:
    """Return the mean of logsumexp(logits) - logits[target]: logits [..., classes], target integers [...].

    As log(sum(exp(logits - max))) + (max - logits[target]), which keeps the digits of a small loss of large logits.
    Raises OperandMismatch for shapes that do not fit, and a target in host memory that is no class; with one on a GPU
    the loss is NaN.
    """
    trace = trace_of(logits, target)
    given, wanted = as_tracer(logits, trace), as_tracer(target, trace)
    if not given.ndim:
        raise OperandMismatch("a number has no classes", hint="give logits [..., classes]")
    if given.shape[:-1] != wanted.shape or not wanted.dtype.is_integer:
        raise OperandMismatch(
            f"logits {given.shape} need integers {given.shape[:-1]}, not {wanted.dtype} {wanted.shape}"
        )
    wide, _ = widened(given)
    trace.picks(wanted.value, 0, given.shape[-1])
    hit = arange(given.shape[-1]) == wanted.astype(i64)[..., None]
    chosen = tracer.select(hit, wide, 0.0).sum(-1, keepdims=True)
    top, _, log_total = _relative_to_maximum(wide, -1)
    losses = (log_total + (top - chosen)).reshape(*wanted.shape)
    is_class = (wanted >= 0) & (wanted < given.shape[-1])
    return tracer.select(is_class, losses, math.nan).mean()


@operator("embedding")
def embedding(table: Array, index: Array) -> Array:
    """Return rows of a table: table[index].

    table: [rows, ...]; index: integers of any shape, from 0 on.  Raises OperandMismatch for a table without rows, no
    integers, and an index in host memory that is outside of the table; one on a GPU gives 0.
    """
    trace = trace_of(table, index)
    rows = as_tracer(table, trace)
    if not rows.ndim:
        raise OperandMismatch("a number has no rows to pick", hint="give a table, [rows, ...]")
    return rows.of(trace.builder.gather(rows.value, indices(index, trace, rows.shape[0]).value, 0))


@operator("rotary")
def rotary(x: Array, *, base: float = 10000.0, offset: int = 0) -> Array:
    """Rotate pairs of the last axis by the position (Su et al. 2021), halves split, as Llama does.

    x: [..., length, width], width even; position p turns pair n by (p + offset) * base^(-2 n / width)
    """
    given = as_tracer(x)
    if given.ndim < 2:
        raise OperandMismatch(f"{given.shape} needs an axis of positions before its last")
    length, width = given.shape[-2:]
    if width % 2:
        raise OperandMismatch(f"pairs of {width} elements do not come out even")
    wide, dtype = widened(given)
    pairs = arange(width // 2).astype(wide.dtype)
    speed = tracer.unary("exp", pairs * (-2 * math.log(base) / width))
    angle = (arange(length) + offset).astype(wide.dtype)[:, None] * speed
    sine, cosine = tracer.unary("sin", angle), tracer.unary("cos", angle)
    left, right = wide[..., : width // 2], wide[..., width // 2 :]
    turned = (left * cosine - right * sine, right * cosine + left * sine)
    joined = given.trace.builder.concat([each.value for each in turned], given.ndim - 1)
    return given.of(joined).astype(dtype)


@operator("sgd")
def sgd(parameter: Array, gradient: Array, *, lr: float, weight_decay: float = 0.0) -> Array:
    """Return a parameter after one step of gradient descent, rounded to its dtype once.

    Raises OperandMismatch for a gradient of another shape.
    """
    trace = trace_of(parameter, gradient)
    old = as_tracer(parameter, trace)
    _require_alike(old, gradient=as_tracer(gradient, trace))
    wide = old.astype(working(old.dtype))
    slope = as_tracer(gradient, trace).astype(wide.dtype)
    slope = slope + weight_decay * wide if weight_decay else slope
    return (wide - lr * slope).astype(old.dtype)


@operator("adamw")
def adamw(  # noqa: PLR0913 - the names of the algorithm
    parameter: Array, gradient: Array, first: Array, second: Array, step: Array, *, lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return what `adam` does, with a weight decay of 0.01 where none is given (Loshchilov and Hutter 2019)."""
    return adam(
        parameter, gradient, first, second, step, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay
    )  # fmt: skip


@operator("adam")
def adam(  # noqa: PLR0913 - the names of the algorithm
    parameter: Array, gradient: Array, first: Array, second: Array, step: Array, *, lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return (parameter, first moment, second moment) after a step of AdamW (Loshchilov and Hutter 2019).

    first, second: the moments so far, f32; step: the number of this step, from 1, as an array without axes
    Raises OperandMismatch for a gradient or moments of another shape than the parameter's, and a step with axes.
    """
    trace = trace_of(parameter, gradient, first, second, step)
    old = as_tracer(parameter, trace)
    given = {"gradient": gradient, "first moment": first, "second moment": second}
    _require_alike(old, **{name: as_tracer(each, trace) for name, each in given.items()})
    if as_tracer(step, trace).ndim:
        found = as_tracer(step, trace).shape
        raise OperandMismatch(f"a step is one number, not {found}", hint="give an array without axes")
    wide = old.astype(working(old.dtype))
    slope = as_tracer(gradient, trace).astype(wide.dtype)
    m = betas[0] * as_tracer(first, trace) + (1 - betas[0]) * slope
    v = betas[1] * as_tracer(second, trace) + (1 - betas[1]) * (slope * slope)
    count = as_tracer(step, trace).astype(wide.dtype)
    corrected = [1.0 - tracer.unary("exp", count * math.log(beta)) for beta in betas]
    root = tracer.unary("sqrt", v / corrected[1]) + eps
    made = wide * (1 - lr * weight_decay) - lr * ((m / corrected[0]) / root)
    return made.astype(old.dtype), m, v


def _require_alike(parameter: Array, **others: Array) -> None:
    for name, each in others.items():
        if each.shape != parameter.shape:
            found = f"a {name} of {each.shape} for a parameter of {parameter.shape}"
            raise OperandMismatch(found, hint="give one shape")
