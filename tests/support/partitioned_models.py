"""Models that are cut over a mesh, written once for Tessera's operators and for `jax.numpy`."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

AXES: Final = ("dp", "tp")
EXTENTS: Final = (2, 4)
Cut = Sequence[str]
"""The axes of the mesh that cut each dimension: ("dp tp", "")."""


@dataclass(frozen=True, slots=True)
class PartitionedModel:
    """A function of a namespace of operators and of arrays; how its arrays and its result lie; constant: no gradient."""

    body: Callable[..., object]
    arrays: Sequence[np.ndarray]
    cuts: Sequence[Cut]
    result: Cut
    constant: Sequence[int] = ()

    @property
    def differentiated(self) -> tuple[int, ...]:
        return tuple(place for place in range(len(self.arrays)) if place not in self.constant)

    def loss(self, np_) -> Callable[..., object]:
        """Return a number of which gradients are taken: the result, or the sum of its squares."""
        if not self.result:
            return lambda *given: self.body(np_, *given)
        return lambda *given: np_.sum(np_.square(self.body(np_, *given)))

    def results(self, *, derived: bool) -> list[Cut]:
        return [self.cuts[place] for place in self.differentiated] if derived else [self.result]


def normal(*shape: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)


def mlp(np_, x, w, v):
    return np_.matmul(np_.tanh(np_.matmul(x, w)), v)


def chain(np_, x, *weights):
    for w in weights:
        x = np_.matmul(x, w)
    return x


def rms(np_, x):
    return x / np_.sqrt(np_.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + 1e-6)


def attention(np_, x, wq, wk, wv, wo):
    def heads(w):
        return np_.transpose(np_.reshape(np_.matmul(x, w), (*x.shape[:2], 8, 8)), (0, 2, 1, 3))

    q, k, v = heads(wq), heads(wk), heads(wv)
    scores = np_.exp(np_.matmul(q, np_.transpose(k, (0, 1, 3, 2))) * 0.125)
    weights = scores / np_.sum(scores, axis=-1, keepdims=True)
    joined = np_.reshape(np_.transpose(np_.matmul(weights, v), (0, 2, 1, 3)), (*x.shape[:2], 64))
    return x + np_.matmul(joined, wo)


def block(np_, x, wq, wk, wv, wo, w, v):
    x = x + attention(np_, rms(np_, x), wq, wk, wv, wo)
    return x + mlp(np_, rms(np_, x), w, v)


def normalized(np_, x, w):
    return np_.matmul(rms(np_, x), w)


def embedded(np_, ids, table, w):
    return np_.tanh(np_.matmul(np_.embedding(table, ids), w))


def cross_entropy(np_, ids, target, table, w):
    return np_.cross_entropy(np_.matmul(np_.embedding(table, ids), w), target)


def residual(np_, x, y, w):
    return np_.matmul(x + y, w) + x


TOKENS: Final = np.random.default_rng(0).integers(0, 64, (4, 16), np.int32)
TARGETS: Final = np.random.default_rng(1).integers(0, 128, (4, 16), np.int32)
ATTENTION: Final = [normal(4, 16, 32, seed=0), *(normal(32, 64, seed=n) for n in (1, 2, 3)), normal(64, 32, seed=4)]
LAYERS: Final = [normal(64, 32, seed=0), normal(32, 128, seed=1), normal(128, 32, seed=2)]
BLOCK: Final = [*ATTENTION, normal(32, 128, seed=5), normal(128, 32, seed=6)]
CHAIN: Final = [normal(64, 32, seed=0), normal(32, 128, seed=1), normal(128, 32, seed=2), normal(32, 64, seed=3)]
NORMED: Final = [normal(64, 32, seed=0), normal(32, 64, seed=1)]
LOSS: Final = [TOKENS, TARGETS, normal(64, 32, seed=2), normal(32, 128, seed=3)]
BY_HEADS: Final = [*[("", "tp")] * 3, ("tp", "")]

MODELS: Final = {
    "tensor-parallel layers": PartitionedModel(mlp, LAYERS, [("dp", ""), ("", "tp"), ("tp", "")], ("dp", "")),
    "tensor-parallel layers of rows first": PartitionedModel(
        mlp, LAYERS, [("dp", "tp"), ("tp", ""), ("", "tp")], ("dp", "tp")
    ),
    "data-parallel layers": PartitionedModel(mlp, LAYERS, [("dp tp", ""), ("", ""), ("", "")], ("dp tp", "")),
    "fully sharded layers": PartitionedModel(mlp, LAYERS, [("dp", ""), ("dp", ""), ("dp", "")], ("dp", "")),
    "fully sharded layers on both axes": PartitionedModel(
        mlp, LAYERS, [("dp", ""), ("dp", "tp"), ("tp", "dp")], ("dp", "")
    ),
    "attention by heads": PartitionedModel(attention, ATTENTION, [("dp", "", ""), *BY_HEADS], ("dp", "", "")),
    "attention by heads, rows cut between": PartitionedModel(
        attention, ATTENTION, [("dp", "tp", ""), *BY_HEADS], ("dp", "tp", "")
    ),
    "a transformer's block": PartitionedModel(
        block, BLOCK, [("dp", "", ""), *BY_HEADS, ("", "tp"), ("tp", "")], ("dp", "", "")
    ),
    "a transformer's block, rows cut between": PartitionedModel(
        block, BLOCK, [("dp", "tp", ""), *BY_HEADS, ("", "tp"), ("tp", "")], ("dp", "tp", "")
    ),
    "a normalization of cut rows": PartitionedModel(normalized, NORMED, [("dp", "tp"), ("tp", "")], ("dp", "")),
    "an embedding by columns": PartitionedModel(
        embedded, [TOKENS, normal(64, 32, seed=2), normal(32, 64, seed=3)], [("dp", ""), ("", "tp"), ("tp", "")],
        ("dp", "", ""), constant=(0,),
    ),
    "a loss of classes on every device": PartitionedModel(
        cross_entropy, LOSS, [("dp", ""), ("dp", ""), ("", ""), ("", "")], (), constant=(0, 1)
    ),
    "a loss of cut classes": PartitionedModel(
        cross_entropy, LOSS, [("dp", ""), ("dp", ""), ("", ""), ("", "tp")], (), constant=(0, 1)
    ),
    "products cut alternately": PartitionedModel(
        chain, CHAIN, [("dp", ""), ("", "tp"), ("tp", ""), ("", "tp")], ("dp", "tp")
    ),
    "products in conflict": PartitionedModel(chain, CHAIN, [("dp", ""), ("", "tp"), ("", "dp"), ("tp", "")], ("", "")),
    "products that all want one axis": PartitionedModel(
        chain, CHAIN, [("tp", ""), ("tp", ""), ("", "tp"), ("", "tp")], ("", "tp")
    ),
    "a product of transposed cuts": PartitionedModel(chain, CHAIN[:2], [("tp", "dp"), ("tp", "dp")], ("dp", "tp")),
    "a sum of two that lie apart": PartitionedModel(
        residual, [normal(64, 32, seed=0), normal(64, 32, seed=1), normal(32, 64, seed=2)[:, :32]],
        [("dp", ""), ("tp", ""), ("", "")], ("dp", ""),
    ),
}  # fmt: skip
