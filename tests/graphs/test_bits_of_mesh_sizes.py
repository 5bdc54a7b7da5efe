"""Gradients of models have the same bits on meshes of 1, 2, 4 and 8 devices, which cut a sum into the same leaves."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportArgumentType=false

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tessera
from support.graphs import assert_same_bits
from support.mesh_arrays import Sharded
from tessera import op
from tessera.core.placement.mesh import Mesh

SIZES = (1, 1), (1, 8), (2, 4), (8, 1)


class Model(NamedTuple):
    """A loss with the shapes of its arguments, and the axes of the mesh that cut them."""

    loss: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]
    cuts: tuple[tuple[str, ...], ...]


def chain(x, w, v):
    return op.mean((op.gelu(x @ w) @ v) ** 2)


def attention(x, q, k, v):
    """Return the loss of attention over rows of all sequences, which a mesh cuts."""
    weights = op.softmax((x @ q) @ op.swapaxes(x @ k, -1, -2) / 4.0)
    return op.mean((weights @ (x @ v)) ** 2)


def block(x, q, k, v, o):
    heads = [op.reshape(x @ w, (*x.shape[:2], 8, 4)).transpose(0, 2, 1, 3) for w in (q, k, v)]
    joined = op.reshape(op.flash_attention(*heads, causal=True).transpose(0, 2, 1, 3), x.shape)
    return op.sum(op.layernorm(x + joined @ o) ** 3)


def cross_entropy(x, w, v):
    return op.mean(op.logsumexp(op.tanh(x @ w) @ v, axis=-1))


def heads_of_flash_attention(q, k, v):
    return op.sum(op.flash_attention(q, k, v, causal=True) ** 3)


def attention_in_a_scan(x, ws):
    def layer(h, w):
        weights = op.softmax((h @ w) @ op.swapaxes(h, -1, -2))
        return op.tanh(weights @ h), op.sum(h)

    last, sums = op.scan(layer, x, ws)
    return op.mean(last**2) + op.mean(sums)


COLUMNS, ROWS, ALL = ("", "tp"), ("tp", ""), ("", "")
MODELS = {
    "chain": Model(chain, ((64, 48), (48, 96), (96, 48)), (("dp", ""), COLUMNS, ROWS)),
    "attention": Model(attention, ((8, 24, 32), *((32, 32),) * 3), (("", "dp", ""), ALL, ALL, ALL)),
    "attention_of_sequences": Model(attention, ((5, 13, 24), *((24, 24),) * 3), (("dp", "", ""), ALL, ALL, ALL)),
    "heads": Model(heads_of_flash_attention, ((3, 8, 17, 8),) * 3, (("dp", "tp", "", ""),) * 3),
    "scan": Model(attention_in_a_scan, ((5, 13, 16), (4, 16, 16)), (("dp", "", ""), ("", "", ""))),
    "block": Model(block, ((8, 24, 32), *((32, 32),) * 4), (("dp", "", ""), COLUMNS, COLUMNS, COLUMNS, ROWS)),
    "cross_entropy": Model(cross_entropy, ((64, 32), (32, 64), (64, 96)), (("dp", ""), COLUMNS, ROWS)),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_have_the_same_bits(name: str):
    loss, shapes, cuts = MODELS[name]
    rng = np.random.default_rng(3)
    arrays = [(rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32) for shape in shapes]

    def run(size: tuple[int, int]) -> list[np.ndarray]:
        mesh = Mesh.of(("dp", "tp"), range(size[0] * size[1]), size)
        parts = [Sharded.of(array, mesh, *cut) for array, cut in zip(arrays, cuts, strict=True)]
        total, slopes = tessera.value_and_grad(loss, argnums=tuple(range(len(arrays))))(*parts)
        return [np.asarray(each) for each in (total, *slopes)]

    alone = run(SIZES[0])
    for size in SIZES[1:]:
        for found, expected in zip(run(size), alone, strict=True):
            assert_same_bits(found, expected)
