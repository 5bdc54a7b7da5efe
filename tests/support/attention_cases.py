"""Variants of attention as people write them, over the elements of one row: scores, values, masks, positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from support.cascades import (
    NEVER,
    E,
    Formulas,
    absolute,
    exp,
    exp2,
    log,
    maximum,
    minimum,
    rsqrt,
    tanh,
    where,
)
from tessera.core.base.dtypes import boolean, f32, f64, i64

Make = Callable[[Formulas], None]


@dataclass(frozen=True)
class Variant:
    """One variant.

    needed: how many of the last results are asked for
    anchors: how many running maxima the loop carries
    empty: whether rows without a visible element are meant to give 0
    """

    make: Make
    anchors: int = 1
    needed: int = 1
    empty: bool = False
    tolerance: float = 1e-12


def softmax(to: Formulas, score: E, value: E) -> tuple[E, E]:
    """Add softmax(score) @ value with its maximum; return the maximum and the sum."""
    m = to.max(score)
    total = to.sum(exp(score - m))
    to.sum(exp(score - m) / total * value)
    return m, total


def full(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    softmax(to, s, v)


def unsafe(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    total = to.sum(exp(s))
    to.sum(exp(s) / total * v)


def divided_at_the_end(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp(s - m))
    o = to.sum(exp(s - m) * v)
    to.map(o / total)


def by_logsumexp(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp(s - m))
    lse = to.map(m + log(total))
    to.sum(exp(s - lse) * v)


def scaled(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    softmax(to, s * 0.125, v)


def scaled_after(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp((s - m) * 0.125))
    to.sum(exp((s - m) * 0.125) * v / total)


def base_two(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp2((s - m) * math.log2(math.e)))
    to.sum(exp2((s - m) * math.log2(math.e)) / total * v)


def widened(to: Formulas) -> None:
    s, v = to.atom("half", f32), to.atom("v")
    softmax(to, s.to(f64), v)


def bias(to: Formulas) -> None:
    s, v, b = to.atom("s"), to.atom("v"), to.atom("b")
    softmax(to, s * 0.125 + b, v)


def masked(to: Formulas) -> None:
    s, v, visible = to.atom("s"), to.atom("v"), to.atom("visible", boolean)
    softmax(to, where(visible, s, NEVER), v)


def additive_mask(to: Formulas) -> None:
    s, v, visible = to.atom("s"), to.atom("v"), to.atom("visible", boolean)
    softmax(to, s + where(visible, 0.0, NEVER), v)


def mask_of_infinities(to: Formulas) -> None:
    s, v, mask = to.atom("s"), to.atom("v"), to.atom("infinities")
    softmax(to, s + mask, v)


def large_negative_mask(to: Formulas) -> None:
    s, v, visible = to.atom("s"), to.atom("v"), to.atom("visible", boolean)
    softmax(to, where(visible, s, -1e9), v)


def causal(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    softmax(to, where(i >= j, s, NEVER), v)


def sliding_window(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    softmax(to, where((i >= j) & (i - j <= 5), s, NEVER), v)


def prefix(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    softmax(to, where((i >= j) | (j < 4), s, NEVER), v)


def alibi(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    slope = to.atom("slope", fixed=True)
    softmax(to, s - slope * (i - j).to(f64), v)


def softcap(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    softmax(to, 20.0 * tanh(s / 20.0), v)


def softcap_causal(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    softmax(to, where(i >= j, 20.0 * tanh(s / 20.0), NEVER), v)


def sigmoid(to: Formulas) -> None:
    s, v, b = to.atom("s"), to.atom("v"), to.atom("b")
    to.sum(1.0 / (1.0 + exp(-(s + b))) * v)


def squared_relu(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    relu = maximum(s, 0.0)
    to.sum(relu * relu * v)


def linear(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    feature = where(s > 0.0, s + 1.0, exp(s))
    total = to.sum(feature)
    to.sum(feature * v / total)


def entropy(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m, total = softmax(to, s, v)
    mean = to.sum(exp(s - m) * (s - m) / total)
    to.map(log(total) - mean)


def logsumexp_output(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m, total = softmax(to, s, v)
    to.map(m + log(total))


def temperature(to: Formulas) -> None:
    s, v, t = to.atom("s"), to.atom("v"), to.atom("slope", fixed=True)
    softmax(to, s * t, v)


def normalised(to: Formulas) -> None:
    qk, qq, kk, v = to.atom("qk"), to.atom("square", fixed=True), to.atom("squares"), to.atom("v")
    softmax(to, 10.0 * minimum(maximum(qk * rsqrt(qq) * rsqrt(kk), -1.0), 1.0), v)


def cosine(to: Formulas) -> None:
    s, v = to.atom("cosine", bounds=(-1.0, 1.0)), to.atom("v")
    softmax(to, s * 16.0, v)


def documents(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    mine, theirs = to.atom("document", i64, fixed=True), to.atom("documents", i64)
    softmax(to, where(mine.equals(theirs), s, NEVER), v)


def relative_bias(to: Formulas) -> None:
    s, v, i, j, b = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64), to.atom("b")
    distance = minimum(maximum(i - j, -8), 8).to(f64)
    softmax(to, s + b + log(1.0 + absolute(distance)), v)


def dropped_out(to: Formulas) -> None:
    s, v, kept = to.atom("s"), to.atom("v"), to.atom("kept", boolean)
    m = to.max(s)
    total = to.sum(exp(s - m))
    to.sum(where(kept, exp(s - m) / total * (1 / 0.9), 0.0) * v)


def sinks(to: Formulas) -> None:
    s, v, sink = to.atom("s"), to.atom("v"), to.atom("sink", fixed=True)
    m = to.map(maximum(to.max(s), sink))
    total = to.map(to.sum(exp(s - m)) + exp(sink - m))
    to.sum(exp(s - m) / total * v)


def off_by_one(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    total = to.sum(exp(s))
    to.sum(exp(s) / (1.0 + total) * v)


def off_by_one_safe(to: Formulas) -> None:
    s, v, visible = to.atom("s"), to.atom("v"), to.atom("visible", boolean)
    score = where(visible, s, NEVER)
    m = to.map(maximum(to.max(score), 0.0))
    total = to.sum(exp(score - m))
    to.sum(exp(score - m) / (total + exp(-m)) * v)


def clipped(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    softmax(to, minimum(maximum(s, -30.0), 30.0), v)


def local_and_global(to: Formulas) -> None:
    s, v, i, j = to.atom("s"), to.atom("v"), to.atom("i", i64, fixed=True), to.atom("j", i64)
    near = absolute(i - j) <= 3
    local = where(near, s, NEVER)
    m, n = to.max(local), to.max(s)
    total, everything = to.sum(exp(local - m)), to.sum(exp(s - n))
    a, b = to.sum(exp(local - m) * v), to.sum(exp(s - n) * v)
    to.map(0.5 * (a / total) + 0.5 * (b / everything))


def padded(to: Formulas) -> None:
    s, v, j, n = to.atom("s"), to.atom("v"), to.atom("j", i64), to.atom("length", i64, fixed=True)
    score = where(j < n, s * 0.25, NEVER)
    m = to.max(score)
    total = to.sum(where(j < n, exp(score - m), 0.0))
    to.sum(where(j < n, exp(score - m), 0.0) * v / total)


def power(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    total = to.sum(s**4)
    to.sum(s**4 * v / total)


def power_softmax(to: Formulas) -> None:
    s, v = to.atom("s"), to.atom("v")
    m = to.max(s)
    total = to.sum(exp(s - m) ** 2)
    to.sum(exp(s - m) ** 2 * v / total)


VARIANTS = {
    "full": Variant(full),
    "unsafe": Variant(unsafe),
    "divided at the end": Variant(divided_at_the_end),
    "by log-sum-exp": Variant(by_logsumexp, tolerance=1e-10),
    "scale": Variant(scaled),
    "scale after the maximum": Variant(scaled_after),
    "base two": Variant(base_two, tolerance=1e-10),
    "widened scores": Variant(widened),
    "bias": Variant(bias),
    "mask": Variant(masked, empty=True),
    "additive mask": Variant(additive_mask, empty=True),
    "mask of infinities": Variant(mask_of_infinities, empty=True),
    "mask of -1e9": Variant(large_negative_mask),
    "causal": Variant(causal),
    "sliding window": Variant(sliding_window),
    "prefix": Variant(prefix),
    "alibi": Variant(alibi),
    "softcap": Variant(softcap, anchors=0),
    "softcap, causal": Variant(softcap_causal, anchors=0),
    "sigmoid": Variant(sigmoid, anchors=0),
    "squared relu": Variant(squared_relu, anchors=0),
    "linear": Variant(linear, tolerance=1e-10),
    "entropy": Variant(entropy, needed=3, tolerance=1e-10),
    "log-sum-exp as an output": Variant(logsumexp_output, needed=2),
    "temperature of a head": Variant(temperature),
    "normalised": Variant(normalised, anchors=0),
    "cosine": Variant(cosine, anchors=0),
    "documents": Variant(documents, empty=True),
    "relative bias": Variant(relative_bias),
    "dropout": Variant(dropped_out),
    "sinks": Variant(sinks),
    "off by one": Variant(off_by_one),
    "off by one, safe": Variant(off_by_one_safe),
    "clipped": Variant(clipped, anchors=0),
    "local and global": Variant(local_and_global, anchors=2),
    "padding": Variant(padded, empty=True),
    "power": Variant(power, anchors=0, tolerance=1e-10),
    "power of softmax": Variant(power_softmax),
}
