"""Reductions that use each other, as losses, norms and statistics have them, each beside what NumPy computes in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tessera import op

Array = Any  # of NumPy, or a value of the graph that is being captured
ROWS: Final = 37
LENGTH: Final = 301
WIDTH: Final = 16
LABELS: Final = np.random.default_rng(5).integers(0, LENGTH, ROWS)


@dataclass(frozen=True)
class RowCascade:
    """One function.

    function: over arrays; reference: the same in f64; arrays: makes the arguments
    kernels: forms of the kernels of its plan; refusals: rules that keep neighbours of these apart
    condition: how many times as far as its arguments' roundings the result may be away, where terms cancel
    """

    function: Callable[..., Array]
    reference: Callable[..., Array]
    arrays: Callable[[], tuple[np.ndarray, ...]]
    kernels: tuple[str, ...]
    refusals: frozenset[str]
    condition: float


CASCADES: Final[dict[str, RowCascade]] = {}


def cascade(
    reference: Callable[..., Array], *shapes: tuple[int, ...] | np.ndarray, kernels: tuple[str, ...] = ("rows",),
    refusals: frozenset[str] = frozenset(), condition: float = 1.0,
) -> Callable[[Callable[..., Array]], Callable[..., Array]]:  # fmt: skip
    """Enter a function, with f32 arrays of these shapes, or these arrays, as arguments."""

    def enter(function: Callable[..., Array]) -> Callable[..., Array]:
        def arrays() -> tuple[np.ndarray, ...]:
            return tuple(
                each if isinstance(each, np.ndarray) else normal(each, seed) for seed, each in enumerate(shapes)
            )

        CASCADES[function.__name__] = RowCascade(function, reference, arrays, kernels, refusals, condition)
        return function

    return enter


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return normal numbers, the same ones for the same seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def lse(x: Array) -> Array:
    """Return the logarithm of the sum of exponentials in NumPy, as a column."""
    top = x.max(-1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(-1, keepdims=True))


def logs(x: Array) -> Array:
    return x - lse(x)


def picked(x: Array, y: Array) -> Array:
    return x[np.arange(len(x)), y]


X: Final = (ROWS, LENGTH)
THEN_MEAN: Final[dict[str, Any]] = {"kernels": ("rows", "rows"), "refusals": frozenset({"reduced-axes"})}
"""The mean of a loss over rows is a second kernel: it reduces the other axis."""


# Losses


@cascade(lambda x: lse(x)[:, 0], X)
def logsumexp(x: Array) -> Array:
    m = x.max(-1, keepdims=True)
    return (m + op.log(op.exp(x - m).sum(-1, keepdims=True)))[:, 0]


@cascade(logs, X)
def log_softmax(x: Array) -> Array:
    return op.log_softmax(x)


@cascade(lambda x: np.exp(logs(-x)), X)
def softmin(x: Array) -> Array:
    return op.softmax(-x)


@cascade(lambda x, y: -picked(logs(x), y).mean(), X, LABELS, **THEN_MEAN)
def cross_entropy(x: Array, y: Array) -> Array:
    return op.cross_entropy(x, y)


@cascade(lambda x, y: -picked(logs(x), y).mean(), X, LABELS, **THEN_MEAN)
def cross_entropy_of_one_hot(x: Array, y: Array) -> Array:
    return -(op.log_softmax(x) * op.one_hot(y, LENGTH)).sum(-1).mean()


@cascade(lambda x, y: -(0.9 * picked(logs(x), y) + 0.1 * logs(x).mean(-1)).mean(), X, LABELS, **THEN_MEAN)
def label_smoothing(x: Array, y: Array) -> Array:
    p = op.log_softmax(x)
    return -(0.9 * (p * op.one_hot(y, LENGTH)).sum(-1) + 0.1 * p.mean(-1)).mean()


@cascade(lambda x, y: (lse(x)[:, 0] - picked(x, y) + 1e-3 * lse(x)[:, 0] ** 2).mean(), X, LABELS, **THEN_MEAN)
def z_loss(x: Array, y: Array) -> Array:
    total = op.logsumexp(x)
    return (total - (x * op.one_hot(y, LENGTH)).sum(-1) + 1e-3 * total * total).mean()


@cascade(lambda x, y: -((1 - np.exp(picked(logs(x), y))) ** 2 * picked(logs(x), y)).mean(), X, LABELS, **THEN_MEAN)
def focal(x: Array, y: Array) -> Array:
    p = (op.log_softmax(x) * op.one_hot(y, LENGTH)).sum(-1)
    return -((1 - op.exp(p)) ** 2 * p).mean()


@cascade(lambda x: -(np.exp(logs(x)) * logs(x)).sum(-1), X)
def entropy(x: Array) -> Array:
    p = op.log_softmax(x)
    return -(op.exp(p) * p).sum(-1)


@cascade(lambda x: np.exp(-(np.exp(logs(x)) * logs(x)).sum(-1)), X, condition=8)
def perplexity(x: Array) -> Array:
    p = op.softmax(x)
    return op.exp(-(p * op.log(p)).sum(-1))


@cascade(lambda x, y: (np.exp(logs(x)) * (logs(x) - logs(y))).sum(-1), X, X, condition=8)
def divergence(x: Array, y: Array) -> Array:
    a, b = op.log_softmax(x), op.log_softmax(y)
    return (op.exp(a) * (a - b)).sum(-1)


@cascade(
    lambda x, w, y: (lse(x @ w)[:, 0] - picked(x @ w, y)).mean(), (ROWS, WIDTH), (WIDTH, LENGTH), LABELS,
    kernels=("cascade", "rows"), refusals=frozenset({"other-loop"}), condition=4,
)  # fmt: skip
def cross_entropy_of_a_product(x: Array, w: Array, y: Array) -> Array:
    """The logits never are in memory."""
    logits = x @ w
    return (op.logsumexp(logits) - (logits * op.one_hot(y, LENGTH)).sum(-1)).mean()


@cascade(
    lambda x, y: (lse(x @ y.T)[:, 0] - (x * y).sum(-1)).mean(), (ROWS, WIDTH), (ROWS, WIDTH),
    kernels=("cascade", "rows"), refusals=frozenset({"other-loop"}), condition=8,
)  # fmt: skip
def contrastive(x: Array, y: Array) -> Array:
    """InfoNCE: the pairs are on the diagonal."""
    scores, i = x @ y.T, op.arange(ROWS)
    return (op.logsumexp(scores) - op.where(i[:, None] == i[None], scores, 0.0).sum(-1)).mean()


# Statistics


@cascade(lambda x: x.var(-1), X)
def variance(x: Array) -> Array:
    c = x - x.mean(-1, keepdims=True)
    return (c * c).mean(-1)


@cascade(lambda x: x.var(-1), X, condition=4)
def variance_of_squares(x: Array) -> Array:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def _weighted(x: Array, w: Array) -> Array:
    mean = (w * x).sum(-1, keepdims=True) / w.sum(-1, keepdims=True)
    return (w * (x - mean) ** 2).sum(-1) / w.sum(-1)


@cascade(_weighted, X, np.abs(normal(X, 7)))
def weighted_variance(x: Array, w: Array) -> Array:
    total = w.sum(-1, keepdims=True)
    mean = (w * x).sum(-1, keepdims=True) / total
    return (w * (x - mean) ** 2).sum(-1) / total[:, 0]


def _centred(x: Array) -> Array:
    return x - x.mean(-1, keepdims=True)


@cascade(lambda x: (_centred(x) ** 3).mean(-1) / x.var(-1) ** 1.5, X)
def skewness(x: Array) -> Array:
    c = x - x.mean(-1, keepdims=True)
    return (c**3).mean(-1) / (c**2).mean(-1) ** 1.5


@cascade(lambda x, y: (_centred(x) * _centred(y)).mean(-1) / np.sqrt(x.var(-1) * y.var(-1)), X, X)
def correlation(x: Array, y: Array) -> Array:
    a, b = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    return (a * b).sum(-1) * op.rsqrt((a * a).sum(-1) * (b * b).sum(-1))


@cascade(lambda x, y: (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)), X, X)
def cosine_similarity(x: Array, y: Array) -> Array:
    return (x * y).sum(-1) * op.rsqrt((x * x).sum(-1) * (y * y).sum(-1))


def _moments(s: Array, x: Array) -> tuple[Array, Array]:
    p = np.exp(logs(s))
    mean = (p * x).sum(-1, keepdims=True)
    return mean[:, 0], (p * (x - mean) ** 2).sum(-1)


@cascade(_moments, X, X)
def mean_and_variance_under_softmax(s: Array, x: Array) -> tuple[Array, Array]:
    p = op.softmax(s)
    mean = (p * x).sum(-1, keepdims=True)
    return mean[:, 0], (p * (x - mean) ** 2).sum(-1)


@cascade(lambda x, w: (x * (w > 0)[..., None]).sum(1) / (w > 0).sum(1)[:, None], (4, 53, WIDTH), (4, 53))
def mean_of_the_visible(x: Array, w: Array) -> Array:
    seen = op.where(w > 0, 1.0, 0.0)
    return (x * seen[..., None]).sum(1) / seen.sum(1)[:, None]


@cascade(
    lambda x: np.log(np.cumsum(np.exp(x), -1)), (ROWS, 40), kernels=("rows", "rows"), refusals=frozenset({"row-axes"})
)
def cumulative_logsumexp(x: Array) -> Array:
    m = x.max(-1, keepdims=True)
    return m + op.log(op.cumsum(op.exp(x - m)))


@cascade(lambda x, w: np.cumsum(x @ w, 1) * 0.5, (4, 19, WIDTH), (WIDTH, 12), kernels=("product", "rows"),
         refusals=frozenset({"weight-columns"}))  # fmt: skip
def running_sums_of_products(x: Array, w: Array) -> Array:
    return op.cumsum(x @ w, 1) * 0.5


@cascade(lambda x, w: np.maximum.accumulate(x @ w, 0), (19, WIDTH), (WIDTH, 12), kernels=("product", "rows"),
         refusals=frozenset({"weight-columns"}))  # fmt: skip
def running_maxima_of_products(x: Array, w: Array) -> Array:
    y = x @ w
    seen = op.arange(19)[:, None] >= op.arange(19)
    return op.max(op.where(seen[:, :, None], y, -np.inf), 1)


# Norms


@cascade(lambda x, g, b: _centred(x) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b, X, (LENGTH,), (LENGTH,))
def layernorm(x: Array, g: Array, b: Array) -> Array:
    c = x - x.mean(-1, keepdims=True)
    return c * op.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g + b


@cascade(lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g, X, (LENGTH,))
def rmsnorm(x: Array, g: Array) -> Array:
    return x * op.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


@cascade(lambda x: np.exp(logs(_centred(x) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))), X, condition=4)
def softmax_of_layernorm(x: Array) -> Array:
    m = x.mean(-1, keepdims=True)
    deviation = op.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)
    return op.softmax((x - m) / deviation)


def _groups(x: Array, g: Array, b: Array) -> Array:
    y = x.reshape(5, 3, 168)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return y.reshape(x.shape) * g[:, None, None] + b[:, None, None]


@cascade(_groups, (5, 12, 6, 7), (12,), (12,), kernels=("rows", "elements"), refusals=frozenset({"view-inside"}))
def groupnorm(x: Array, g: Array, b: Array) -> Array:
    """A gain for each channel follows the norm of groups of them."""
    y = op.layernorm(x.reshape(5, 3, 168)).reshape(5, 12, 6, 7)
    return y * g[:, None, None] + b[:, None, None]


@cascade(
    lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5), (5, 12, 6, 7)
)
def batchnorm(x: Array) -> Array:
    m = x.mean((0, 2, 3), keepdims=True)
    return (x - m) * op.rsqrt(((x - m) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)


# Products


def _unit(y: Array) -> Array:
    return y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6)


@cascade(lambda x, w: x / np.sqrt((x * x).sum(-1, keepdims=True)) @ w, (ROWS, 65), (65, 24), kernels=("cascade",))
def product_of_unit_rows(x: Array, w: Array) -> Array:
    return (x * op.rsqrt((x * x).sum(-1, keepdims=True))) @ w


@cascade(
    lambda x, g, w: _unit(x) * g @ w, (ROWS, 65), (65,), (65, 24),
    kernels=("cascade",), condition=4,
)  # fmt: skip
def product_of_rmsnorm(x: Array, g: Array, w: Array) -> Array:
    return op.rmsnorm(x, g) @ w


@cascade(
    lambda x, w: _unit(x @ w), (ROWS, 65), (65, 24),
    kernels=("product", "rows"), refusals=frozenset({"loop-output"}),
)  # fmt: skip
def rmsnorm_of_a_product(x: Array, w: Array) -> Array:
    """The squares are made where they are summed: the product writes one array."""
    return op.rmsnorm(x @ w)


@cascade(
    lambda x, q: np.exp(logs(x @ q))[:, None] @ x, (4, 53, WIDTH), (WIDTH,), kernels=("cascade",),
    condition=4,
)  # fmt: skip
def attention_pooling(x: Array, q: Array) -> Array:
    return op.softmax(x @ q)[:, None] @ x


@cascade(
    lambda x, w: (np.argmax(x @ w, -1), np.exp(logs(x @ w)).max(-1)), (ROWS, WIDTH), (WIDTH, 8),
    kernels=("product", "rows"), refusals=frozenset({"integers"}), condition=4,
)  # fmt: skip
def router(x: Array, w: Array) -> tuple[Array, Array]:
    p = op.softmax(x @ w)
    return op.argmax(p), p.max(-1)


@cascade(lambda x, y: (x @ y.T).max(-1), (ROWS, WIDTH), (53, WIDTH), kernels=("cascade",))
def greatest_product(x: Array, y: Array) -> Array:
    return (x @ y.T).max(-1)


def _squares(x: Array, y: Array) -> Array:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


@cascade(
    lambda x, y: _squares(x, y).min(-1), (ROWS, WIDTH), (53, WIDTH), kernels=("rows", "rows", "cascade"),
    refusals=frozenset({"other-loop"}), condition=4,
)  # fmt: skip
def nearest_distance(x: Array, y: Array) -> Array:
    return ((x * x).sum(-1, keepdims=True) + (y * y).sum(-1) - 2 * (x @ y.T)).min(-1)


@cascade(
    lambda x, y: np.exp(-_squares(x, y) / 32).sum(-1), (ROWS, WIDTH), (53, WIDTH), kernels=("rows", "rows", "cascade"),
    refusals=frozenset({"other-loop"}), condition=4,
)  # fmt: skip
def sum_of_gaussians(x: Array, y: Array) -> Array:
    d = (x * x).sum(-1, keepdims=True) + (y * y).sum(-1) - 2 * (x @ y.T)
    return op.exp(-d / 32).sum(-1)
