"""Variants of attention as people's models write them, in plain operators, each beside what NumPy computes in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tessera import op

Array = Any  # of NumPy, or a value of the graph that is being captured
LENGTH: Final = 45
QUERIES: Final = 37
KEYS: Final = 53
WIDTH: Final = 12
HEADS: Final = 3


@dataclass(frozen=True)
class Variant:
    """One variant.

    function: over arrays; reference: the same in f64; arrays: makes the arguments
    kernels: forms of the kernels of its plan; refusals: rules that keep neighbours of these apart
    quadratic: whether an array of queries by keys goes through memory
    """

    function: Callable[..., Array]
    reference: Callable[..., Array]
    arrays: Callable[[], tuple[np.ndarray, ...]]
    kernels: tuple[str, ...] = ("cascade",)
    refusals: frozenset[str] = frozenset()
    quadratic: bool = False


VARIANTS: Final[dict[str, Variant]] = {}


def variant(
    reference: Callable[..., Array], *shapes: tuple[int, ...] | np.ndarray, kernels: tuple[str, ...] = ("cascade",),
    refusals: frozenset[str] = frozenset(), quadratic: bool = False,
) -> Callable[[Callable[..., Array]], Callable[..., Array]]:  # fmt: skip
    """Enter a function, with f32 arrays of these shapes, or these arrays, as arguments."""

    def enter(function: Callable[..., Array]) -> Callable[..., Array]:
        def arrays() -> tuple[np.ndarray, ...]:
            return tuple(
                each if isinstance(each, np.ndarray) else normal(each, seed) for seed, each in enumerate(shapes)
            )

        made = Variant(function, reference, arrays, kernels, refusals, quadratic)
        VARIANTS[function.__name__] = made
        return function

    return enter


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return normal numbers of deviation one half, the same ones for the same seed."""
    return (np.random.default_rng((seed, *shape)).standard_normal(shape) / 2).astype(np.float32)


def softmax(scores: Array, axis: int = -1) -> Array:
    """Return the softmax in NumPy; rows of -inf give 0."""
    top = scores.max(axis, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def attend(scores: Array, v: Array) -> Array:
    return softmax(scores) @ v


def t(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def places(rows: int = LENGTH, columns: int = LENGTH) -> tuple[Array, Array]:
    """Return the indices of rows and of columns in NumPy."""
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


def positions(rows: int = LENGTH, columns: int = LENGTH) -> tuple[Array, Array]:
    """Return the indices of rows and of columns in the graph that is being captured."""
    return op.arange(rows)[:, None], op.arange(columns)[None, :]


def hidden(seen: Array, scores: Array) -> Array:
    return np.where(seen, scores, -np.inf)


rows, columns = places()
SELF: Final = ((LENGTH, WIDTH),) * 3
HEADED: Final = ((2, HEADS, LENGTH, WIDTH),) * 3
CROSS: Final = ((2, HEADS, QUERIES, WIDTH), (2, HEADS, KEYS, WIDTH), (2, HEADS, KEYS, WIDTH))
SLOPES: Final = np.array([0.5, 0.25, 0.125], np.float32)
DOCUMENTS: Final = np.sort(np.random.default_rng(1).integers(0, 4, (2, LENGTH)), axis=1)
LENGTHS: Final = np.array([LENGTH, 17])


# One head, three lines


@variant(lambda q, k, v: attend(q @ k.T, v), *SELF)
def three_lines(q: Array, k: Array, v: Array) -> Array:
    s = q @ k.T
    p = op.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v


@variant(lambda q, k, v: attend(q @ k.T, v), *SELF)
def without_the_maximum(q: Array, k: Array, v: Array) -> Array:
    p = op.exp(q @ k.T)
    return (p / p.sum(-1, keepdims=True)) @ v


@variant(lambda q, k, v: attend(q @ k.T, v), *SELF)
def divided_at_the_end(q: Array, k: Array, v: Array) -> Array:
    s = q @ k.T
    p = op.exp(s - s.max(-1, keepdims=True))
    return (p @ v) / p.sum(-1, keepdims=True)


@variant(lambda q, k, v: attend(q @ k.T, v), *SELF)
def in_base_two(q: Array, k: Array, v: Array) -> Array:
    s = q @ k.T * math.log2(math.e)
    p = op.exp2(s - s.max(-1, keepdims=True))
    return (p @ v) / p.sum(-1, keepdims=True)


@variant(lambda q, k, v: attend(q @ k.T / math.sqrt(WIDTH), v), *SELF)
def scaled(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k.T / math.sqrt(q.shape[-1])) @ v


@variant(lambda q, k, v: attend(np.clip(q @ k.T, -1, 1), v), *SELF)
def clipped(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(op.clip(q @ k.T, -1, 1)) @ v


@variant(lambda q, k, v: attend(q[:1] @ k.T, v), *SELF)
def one_query(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q[:1] @ k.T) @ v


@variant(lambda q, k, v: attend(q @ k.T, v) / (1 + np.exp(-q)) + q, *SELF)
def gated_with_residual(q: Array, k: Array, v: Array) -> Array:
    return (op.softmax(q @ k.T) @ v) * op.sigmoid(q) + q


# Masks


@variant(lambda q, k, v: attend(hidden(rows >= columns, q @ k.T), v), *SELF)
def causal(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(op.where(i >= j, q @ k.T, -math.inf)) @ v


@variant(lambda q, k, v: attend(hidden(rows >= columns, q @ k.T), v), *SELF)
def causal_by_addition(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(q @ k.T + op.where(i >= j, 0.0, -1e9)) @ v


@variant(lambda q, k, v: attend(hidden((rows >= columns) & (rows - columns < 9), q @ k.T), v), *SELF)
def sliding_window(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(op.where((i >= j) & (i - j < 9), q @ k.T, -math.inf)) @ v


@variant(lambda q, k, v: attend(hidden((np.abs(rows - columns) <= 5) | (columns < 3) | (rows < 3), q @ k.T), v), *SELF)
def window_and_global(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(op.where((op.abs(i - j) <= 5) | (j < 3) | (i < 3), q @ k.T, -math.inf)) @ v


@variant(lambda q, k, v: attend(hidden((rows >= columns) | (columns < 11), q @ k.T), v), *SELF)
def prefix(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(op.where((j < 11) | (i >= j), q @ k.T, -math.inf)) @ v


@variant(lambda q, k, v: attend(hidden((rows - columns) % 4 == 0, q @ k.T), v), *SELF)
def strided(q: Array, k: Array, v: Array) -> Array:
    i, j = positions()
    return op.softmax(op.where((i - j) % 4 == 0, q @ k.T, -math.inf)) @ v


@variant(
    lambda q, k, v, d: attend(hidden((d[:, None, :, None] == d[:, None, None]) & (rows >= columns), q @ t(k)), v),
    *HEADED, DOCUMENTS,
)  # fmt: skip
def documents(q: Array, k: Array, v: Array, document: Array) -> Array:
    i, j = positions()
    same = document[:, None, :, None] == document[:, None, None, :]
    return op.softmax(op.where(same & (i >= j), q @ k.T, -math.inf)) @ v


@variant(lambda q, k, v, n: attend(hidden(columns < n[:, None, None, None], q @ t(k)), v), *HEADED, LENGTHS)
def ragged_lengths(q: Array, k: Array, v: Array, length: Array) -> Array:
    j = op.arange(LENGTH)
    return op.softmax(op.where(j < length[:, None, None, None], q @ k.T, -math.inf)) @ v


@variant(
    lambda q, k, v, m: attend(hidden(m, q @ t(k)), v), *HEADED,
    np.random.default_rng(2).integers(0, 2, (2, 1, LENGTH, LENGTH)).astype(bool),
)  # fmt: skip
def mask_in_memory(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return op.softmax_safe(op.where(mask, q @ k.T, -math.inf)) @ v


BLOCKS: Final = (np.random.default_rng(3).integers(0, 2, (5, 5)) | np.eye(5, dtype=int)).astype(bool)


@variant(
    lambda q, k, v, b: attend(hidden(np.kron(b, np.ones((9, 9))) == 1, q @ t(k)), v), *HEADED, BLOCKS,
    kernels=("product", "elements", "cascade"), refusals=frozenset({"box"}), quadratic=True,
)  # fmt: skip
def block_sparse(q: Array, k: Array, v: Array, blocks: Array) -> Array:
    """A block of the mask is no box in memory: one element of it stands for many."""
    seen = op.broadcast_to(blocks[:, None, :, None], (5, 9, 5, 9)).reshape(LENGTH, LENGTH)
    return op.softmax(op.where(seen, q @ k.T, -math.inf)) @ v


# Biases, caps and temperatures


@variant(lambda q, k, v, m: attend(q @ t(k) - m[:, None, None] * abs(rows - columns), v), *HEADED, SLOPES)
def alibi(q: Array, k: Array, v: Array, slope: Array) -> Array:
    i, j = positions()
    return op.softmax(q @ k.T - slope[:, None, None] * op.abs(i - j)) @ v


@variant(lambda q, k, v: attend(5 * np.tanh(q @ k.T / 5), v), *SELF)
def soft_cap(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(5 * op.tanh(q @ k.T / 5)) @ v


@variant(
    lambda q, k, v, m: attend(hidden(rows >= columns, 5 * np.tanh(q @ t(k) / 5) - m[:, None, None] * (rows - columns)), v),
    *HEADED, SLOPES,
)  # fmt: skip
def alibi_causal_soft_cap(q: Array, k: Array, v: Array, slope: Array) -> Array:
    i, j = positions()
    scores = 5 * op.tanh(q @ k.T / 5) - slope[:, None, None] * (i - j)
    return op.softmax(op.where(i >= j, scores, -math.inf)) @ v


@variant(lambda q, k, v, b: attend(q @ t(k) + b, v), *HEADED, (HEADS, LENGTH, LENGTH))
def bias_in_memory(q: Array, k: Array, v: Array, bias: Array) -> Array:
    return op.softmax(q @ k.T + bias) @ v


@variant(
    lambda q, k, v, table: attend(q @ t(k) + table[:, np.clip(rows - columns, -8, 7) + 8], v), *HEADED, (HEADS, 16),
    kernels=("elements", "cascade"), refusals=frozenset({"elements"}), quadratic=True,
)  # fmt: skip
def relative_bias(q: Array, k: Array, v: Array, table: Array) -> Array:
    """The gathered bias goes through memory, once for the batch."""
    i, j = positions()
    return op.softmax(q @ k.T + op.gather(table, op.clip(i - j, -8, 7) + 8, axis=1)) @ v


@variant(lambda q, k, v, r: attend(q @ t(k) + q @ r.T, v), *HEADED, (LENGTH, WIDTH))
def relative_keys(q: Array, k: Array, v: Array, r: Array) -> Array:
    return op.softmax(q @ k.T + q @ r.T) @ v


@variant(lambda q, k, v, s: attend(q @ t(k) * np.exp(s)[:, None, None], v), *HEADED, (HEADS,))
def temperature_of_a_head(q: Array, k: Array, v: Array, s: Array) -> Array:
    return op.softmax(q @ k.T * op.exp(s)[:, None, None]) @ v


def _forgotten(q: Array, k: Array, v: Array, f: Array) -> Array:
    c = np.cumsum(-np.log1p(np.exp(-f)), -1)
    return attend(hidden(rows >= columns, q @ t(k) + c[..., None] - c[..., None, :]), v)


@variant(_forgotten, *HEADED, (2, HEADS, LENGTH), kernels=("rows", "cascade"), refusals=frozenset({"factors"}))
def forgetting(q: Array, k: Array, v: Array, f: Array) -> Array:
    i, j = positions()
    c = op.cumsum(op.log(op.sigmoid(f)), axis=-1)
    return op.softmax(op.where(i >= j, q @ k.T + c[..., :, None] - c[..., None, :], -math.inf)) @ v


# Normalized queries and keys


def _normalized(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


@variant(
    lambda q, k, v: attend(_normalized(q) @ t(_normalized(k)), v), *HEADED, kernels=("rows", "rows", "cascade"),
    refusals=frozenset({"other-loop"}),
)  # fmt: skip
def normalized_queries_and_keys(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(op.rmsnorm(q) @ op.rmsnorm(k).T) @ v


@variant(
    lambda q, k, v: attend(
        10 * q @ k.T / np.sqrt((q * q).sum(-1, keepdims=True)) / np.sqrt((k * k).sum(-1)), v
    ), *SELF, kernels=("rows", "rows", "cascade"), refusals=frozenset({"other-loop"}),
)  # fmt: skip
def cosine_with_temperature(q: Array, k: Array, v: Array) -> Array:
    def unit(x: Array) -> Array:
        return x * op.rsqrt((x * x).sum(-1, keepdims=True))

    return op.softmax(unit(q) @ unit(k).T * 10) @ v


@variant(
    lambda q, k, v: attend(-((q[:, None] - k[None]) ** 2).sum(-1) / 2, v), *SELF, kernels=("rows", "rows", "cascade"),
    refusals=frozenset({"other-loop"}),
)  # fmt: skip
def distances(q: Array, k: Array, v: Array) -> Array:
    d = (q * q).sum(-1, keepdims=True) + (k * k).sum(-1) - 2 * (q @ k.T)
    return op.softmax(-0.5 * d) @ v


# Heads


@variant(lambda q, k, v: attend(q @ t(k), v), *CROSS)
def cross(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k.T) @ v


def _grouped(q: Array, k: Array, v: Array) -> Array:
    return attend(q @ t(np.repeat(k, 3, 1)), np.repeat(v, 3, 1))


GROUPED: Final = ((2, 6, QUERIES, WIDTH), (2, 2, KEYS, WIDTH), (2, 2, KEYS, WIDTH))


@variant(_grouped, *GROUPED)
def grouped_queries(q: Array, k: Array, v: Array) -> Array:
    b, heads, rows, width = q.shape
    groups = k.shape[1]
    shared = q.reshape(b, groups, heads // groups, rows, width)
    made = op.softmax(shared @ k[:, :, None].T) @ v[:, :, None]
    return made.reshape(b, heads, rows, width)


@variant(_grouped, *GROUPED)
def repeated_keys(q: Array, k: Array, v: Array) -> Array:
    def repeat(x: Array) -> Array:
        b, groups, rows, width = x.shape
        return op.broadcast_to(x[:, :, None], (b, groups, 3, rows, width)).reshape(b, 3 * groups, rows, width)

    return op.softmax(q @ repeat(k).T) @ repeat(v)


@variant(
    lambda q, k, v: attend(q @ t(k)[:, None], v[:, None]), (2, 6, QUERIES, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH)
)
def one_key_head(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k[:, None].T) @ v[:, None]


@variant(
    lambda q, k, v: np.einsum("bhqk,bkhd->bqhd", softmax(np.einsum("bqhd,bkhd->bhqk", q, k)), v),
    (2, QUERIES, 6, WIDTH), (2, KEYS, 6, WIDTH), (2, KEYS, 6, WIDTH),
)  # fmt: skip
def heads_behind_positions(q: Array, k: Array, v: Array) -> Array:
    return op.einsum("bhqk,bkhd->bqhd", op.softmax(op.einsum("bqhd,bkhd->bhqk", q, k)), v)


@variant(
    lambda q, k, v: attend(q @ t(k) / math.sqrt(24), v),
    (2, HEADS, QUERIES, 24), (2, HEADS, KEYS, 24), (2, HEADS, KEYS, 10),
)  # fmt: skip
def wider_keys_than_values(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k.T / math.sqrt(24)) @ v


@variant(
    lambda q, c, r, s: attend((q @ t(c)[:, None] + r @ t(s)[:, None]) / 5, c[:, None]),
    (2, HEADS, QUERIES, 20), (2, KEYS, 20), (2, HEADS, QUERIES, 6), (2, KEYS, 6),
)  # fmt: skip
def latent_keys(q: Array, latent: Array, turned: Array, shared: Array) -> Array:
    """Keys and values are one array, and a second product adds the positions (MLA, absorbed)."""
    scores = q @ latent[:, None].T + turned @ shared[:, None].T
    return op.softmax(scores / 5) @ latent[:, None]


def _rotated(x: Array, c: Array, s: Array, join: Callable[..., Array]) -> Array:
    a, b = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    return join([a * c - b * s, b * c + a * s])


@variant(
    lambda q, k, v, c, s: attend(
        _rotated(q, c, s, lambda p: np.concatenate(p, -1)) @ t(_rotated(k, c, s, lambda p: np.concatenate(p, -1))), v
    ), *HEADED, (LENGTH, WIDTH // 2), (LENGTH, WIDTH // 2), kernels=("elements", "elements", "cascade"),
    refusals=frozenset({"elements"}),
)  # fmt: skip
def rotary(q: Array, k: Array, v: Array, c: Array, s: Array) -> Array:
    q, k = (_rotated(x, c, s, lambda parts: op.concat(parts, axis=-1)) for x in (q, k))
    return op.softmax(q @ k.T) @ v


EXPONENTIALS: Final = ((HEADS, QUERIES, WIDTH), (HEADS, KEYS, WIDTH), (HEADS, KEYS, WIDTH))
APART: Final = frozenset({"weight-columns"})


@variant(
    lambda q, k, v: attend(q @ k.swapaxes(-1, -2), np.exp(v)),
    *EXPONENTIALS,
    kernels=("maps", "cascade"),
    refusals=APART,
)
def exponentials_of_values(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k.T) @ op.exp(v)


@variant(
    lambda q, k, v: attend(q @ k.swapaxes(-1, -2), v / (1 + np.exp(-v))),
    *EXPONENTIALS,
    kernels=("maps", "cascade"),
    refusals=APART,
)
def gated_values(q: Array, k: Array, v: Array) -> Array:
    return op.softmax(q @ k.T) @ op.silu(v)


def _causal(scores: Array) -> Array:
    return np.where(np.tri(KEYS) > 0, scores, -np.inf)


@variant(lambda x, y: attend(_causal(x @ x.swapaxes(-1, -2) / math.sqrt(WIDTH)), np.sinh(x) * y),
         (HEADS, KEYS, WIDTH), (HEADS, KEYS, WIDTH), kernels=("maps", "cascade"), refusals=APART)  # fmt: skip
def one_array_as_queries_keys_and_values(x: Array, y: Array) -> Array:
    return op.flash_attention(x, x, op.sinh(x) * y, causal=True)
