"""Cascades other than attention as people write them: losses, norms, statistics, gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.attention_cases import softmax
from support.cascades import NEVER, E, Formulas, absolute, exp, log, maximum, minimum, rsqrt, sqrt, where
from tessera.core.base.dtypes import boolean, f32, f64, i64

EXTENT = 40


@dataclass(frozen=True)
class Case:
    """One cascade.

    needed: how many of the last results are asked for
    centred: the kinds of centres, "mean" or "anchor"
    """

    make: Callable[[Formulas], None]
    needed: int = 1
    centred: tuple[str, ...] = ()
    tolerance: float = 1e-11


def _mean(to: Formulas, x: E) -> E:
    return to.sum(x * (1 / EXTENT))


def _moments(to: Formulas, x: E) -> tuple[E, E]:
    mean = _mean(to, x)
    return mean, to.sum((x - mean) * (x - mean) * (1 / EXTENT))


def logsumexp(to: Formulas) -> None:
    s = to.atom("s")
    m = to.max(s)
    to.map(m + log(to.sum(exp(s - m))))


def unsafe_logsumexp(to: Formulas) -> None:
    s = to.atom("s")
    to.map(log(to.sum(exp(s))))


def cross_entropy(to: Formulas) -> None:
    s, j, target = to.atom("s"), to.atom("j", i64), to.atom("target", i64, fixed=True)
    m = to.max(s)
    total = to.sum(exp(s - m))
    at = to.sum(where(j.equals(target), s, 0.0))
    to.map(m + log(total) - at)


def label_smoothing(to: Formulas) -> None:
    s, j, target = to.atom("s"), to.atom("j", i64), to.atom("target", i64, fixed=True)
    m = to.max(s)
    lse = to.map(m + log(to.sum(exp(s - m))))
    smooth = where(j.equals(target), 0.9, 0.1 / EXTENT)
    to.sum(smooth * (lse - s))


def z_loss(to: Formulas) -> None:
    s = to.atom("s")
    m = to.max(s)
    lse = to.map(m + log(to.sum(exp(s - m))))
    to.map(1e-4 * lse * lse)


def mean_and_variance(to: Formulas) -> None:
    _moments(to, to.atom("x"))


def counted_variance(to: Formulas) -> None:
    x, visible = to.atom("x"), to.atom("visible", boolean)
    weight = visible.to(f64)
    count = to.sum(weight)
    mean = to.sum(weight * x) / count
    square = to.sum(weight * (x - to.map(mean)) ** 2)
    to.map(square / count)


def welford_with_mask(to: Formulas) -> None:
    x, visible = to.atom("x"), to.atom("visible", boolean)
    count = to.sum(where(visible, 1.0 + 0.0 * x, 0.0))
    mean = to.map(to.sum(where(visible, x, 0.0)) / count)
    to.map(to.sum(where(visible, (x - mean) * (x - mean), 0.0)) / (count - 1.0))


def layernorm_matmul(to: Formulas) -> None:
    x, g, b, w = to.atom("x"), to.atom("g"), to.atom("b"), to.atom("w")
    mean, variance = _moments(to, x)
    to.sum(((x - mean) * rsqrt(variance + 1e-5) * g + b) * w)


def residual_layernorm_matmul(to: Formulas) -> None:
    h, x, w = to.atom("h"), to.atom("x"), to.atom("w")
    mean, variance = _moments(to, h + x)
    scale = to.map(rsqrt(variance + 1e-5))
    to.sum((h + x - mean) * scale * w)


def half_layernorm_matmul(to: Formulas) -> None:
    half, w = to.atom("half", f32), to.atom("w")
    x = half.to(f64)
    mean, variance = _moments(to, x)
    to.sum((x * rsqrt(variance + 1e-5) - mean * rsqrt(variance + 1e-5)) * w)


def rmsnorm_matmul(to: Formulas) -> None:
    x, g, w = to.atom("x"), to.atom("g"), to.atom("w")
    square = to.sum(x * x * (1 / EXTENT))
    to.sum(x * rsqrt(square + 1e-5) * g * w)


def skewness(to: Formulas) -> None:
    x = to.atom("x")
    mean, variance = _moments(to, x)
    third = to.sum((x - mean) ** 3 * (1 / EXTENT))
    to.map(third * rsqrt(variance) ** 3)


def kurtosis(to: Formulas) -> None:
    x = to.atom("x")
    mean, variance = _moments(to, x)
    to.map(to.sum((x - mean) ** 4 * (1 / EXTENT)) / (variance * variance))


def covariance(to: Formulas) -> None:
    x, y = to.atom("x"), to.atom("y")
    mine, theirs = _mean(to, x), _mean(to, y)
    to.sum((x - mine) * (y - theirs) * (1 / EXTENT))


def correlation(to: Formulas) -> None:
    x, y = to.atom("x"), to.atom("y")
    (a, one), (b, two) = _moments(to, x), _moments(to, y)
    to.map(to.sum((x - a) * (y - b) * (1 / EXTENT)) * rsqrt(one * two))


def weighted_variance(to: Formulas) -> None:
    w, x = to.atom("weight"), to.atom("x")
    total = to.sum(w)
    mean = to.map(to.sum(w * x) / total)
    to.map(to.sum(w * (x - mean) ** 2) / total)


def softmax_variance(to: Formulas) -> None:
    s, x = to.atom("s"), to.atom("x")
    m = to.max(s)
    total = to.sum(exp(s - m))
    mean = to.sum(exp(s - m) * x / total)
    to.sum(exp(s - m) * (x - mean) ** 2 / total)


def temperature_from_mean(to: Formulas) -> None:
    s, w, v = to.atom("s"), to.atom("weight"), to.atom("v")
    t = _mean(to, w)
    total = to.sum(exp(s))
    to.sum(exp(s) * v / total / t)


def gradient_of_queries(to: Formulas) -> None:
    s, dp, k, lse = to.atom("s"), to.atom("x"), to.atom("v"), to.atom("lse", fixed=True)
    p = exp(s - lse)
    delta = to.sum(p * dp)
    to.sum(p * (dp - delta) * k)


def gradient_recomputed(to: Formulas) -> None:
    s, dp, k = to.atom("s"), to.atom("x"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp(s - m))
    delta = to.sum(exp(s - m) / total * dp)
    to.sum(exp(s - m) / total * (dp - delta) * k)


def entropy(to: Formulas) -> None:
    s = to.atom("s")
    m = to.max(s)
    total = to.sum(exp(s - m))
    to.sum(-(exp(s - m) / total) * (s - m - log(total)))


def divergence(to: Formulas) -> None:
    s, t = to.atom("s"), to.atom("t")
    m, n = to.max(s), to.max(t)
    a, b = to.sum(exp(s - m)), to.sum(exp(t - n))
    to.sum(exp(s - m) / a * (s - m - log(a) - (t - n - log(b))))


def cosine_similarity(to: Formulas) -> None:
    x, y = to.atom("x"), to.atom("y")
    dot, a, b = to.sum(x * y), to.sum(x * x), to.sum(y * y)
    to.map(dot / (sqrt(a) * sqrt(b)))


def quantise_scale(to: Formulas) -> None:
    x = to.atom("x")
    to.map(to.max(absolute(x)) / 448.0)


def span(to: Formulas) -> None:
    x = to.atom("x")
    to.map(to.max(x) - to.min(x))


def shifted_maximum(to: Formulas) -> None:
    x = to.atom("x")
    mean = _mean(to, x)
    to.max(x - mean)


def count(to: Formulas) -> None:
    s = to.atom("s")
    one = where(s > 0.0, E(s.expr) * 0.0 + 1.0, 0.0)
    to.sum(one)


def layernorm_softmax_pool(to: Formulas) -> None:
    s, v, x = to.atom("s"), to.atom("v"), to.atom("x")
    mean, variance = _moments(to, x)
    m = to.max(s)
    total = to.sum(exp(s - m))
    to.sum(exp(s - m) / total * (x - mean) * rsqrt(variance + 1e-5) * v)


def gated(to: Formulas) -> None:
    s, v, visible = to.atom("s"), to.atom("v"), to.atom("visible", boolean)
    softmax(to, where(visible, s, NEVER), maximum(v, 0.0) + minimum(v, 1.0))


CASES = {
    "log-sum-exp": Case(logsumexp),
    "log-sum-exp, unsafe": Case(unsafe_logsumexp),
    "cross entropy": Case(cross_entropy),
    "label smoothing": Case(label_smoothing, 1, ("mean",), tolerance=1e-10),
    "z-loss": Case(z_loss),
    "mean and variance": Case(mean_and_variance, 2, ("mean",)),
    "variance, counted": Case(counted_variance, 1, ("mean",)),
    "Welford with a mask": Case(welford_with_mask, 1, ("mean",)),
    "LayerNorm, matmul": Case(layernorm_matmul, 1, ("mean",)),
    "residual, LayerNorm, matmul": Case(residual_layernorm_matmul, 1, ("mean",)),
    "LayerNorm of halves, matmul": Case(half_layernorm_matmul, 1, ("mean",)),
    "RMSNorm, matmul": Case(rmsnorm_matmul),
    "skewness": Case(skewness, 1, ("mean",), 1e-9),
    "kurtosis": Case(kurtosis, 1, ("mean",), 1e-9),
    "covariance": Case(covariance, 1, ("mean", "mean")),
    "correlation": Case(correlation, 1, ("mean", "mean")),
    "weighted variance": Case(weighted_variance, 1, ("mean",)),
    "variance under softmax": Case(softmax_variance, 1, ("mean",)),
    "temperature from a mean": Case(temperature_from_mean),
    "gradient of queries": Case(gradient_of_queries, 1, ("mean",), 1e-10),
    "gradient, recomputed": Case(gradient_recomputed, 1, ("mean",), 1e-10),
    "entropy": Case(entropy, 1, ("anchor",), tolerance=1e-10),
    "divergence": Case(divergence, 1, ("anchor", "mean"), tolerance=1e-10),
    "cosine similarity": Case(cosine_similarity),
    "scale of a quantisation": Case(quantise_scale),
    "span": Case(span),
    "maximum less the mean": Case(shifted_maximum),
    "count": Case(count),
    "pool of normalised values": Case(layernorm_softmax_pool, 1, ("mean",)),
    "gated": Case(gated),
}
