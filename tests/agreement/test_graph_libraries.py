"""Graphs on arrays of every library on a GPU: what comes back is the library's own, and the same numbers."""

# Arrays of libraries that are not installed where types are checked.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportArgumentType=false, reportUntypedFunctionDecorator=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.operators import Array
from tessera import graph, op
from tessera.core.settings import overridden

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 33, 4, 8)).astype(np.float32)
W = RANDOM.standard_normal((32, 96)).astype(np.float32)


@graph.module("layer")
def layer(x: Array, w: Array) -> tuple[Array, Array, Array]:
    """Several kernels, values in other shapes of the same memory, an output that is an input's view, and a number."""
    joined = x.reshape(2, 33, 32)
    q, k, v = op.split_qkv(op.matmul(op.rmsnorm(joined), w), heads=4)
    attended = op.join_heads(op.flash_attention(q, k, v, causal=True)) + joined
    return attended, op.softmax(attended), attended.sum()


def convert(library: str) -> Callable[[np.ndarray], Any]:
    module = pytest.importorskip(library)
    match library:
        case "torch":
            return lambda array: module.from_numpy(array).cuda()
        case "jax":
            return module.numpy.asarray
        case _:
            return module.asarray


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["numpy", "torch", "cupy", "jax"])
def test_every_library(library: str):
    with overridden(target="cpu"):
        wanted = layer(X, W)
    to = convert(library)
    x, w = to(X), to(W)
    with overridden(target="cuda"):
        # Buffers that are given back are used again by the next call.
        for _ in range(5):
            made = layer(x, w)
            assert all(type(each) is type(x) for each in made)
            for found, each in zip(made, wanted, strict=True):
                host = found.cpu().numpy() if library == "torch" else found.get() if library == "cupy" else found
                np.testing.assert_allclose(np.asarray(host), each, rtol=1e-4, atol=1e-4)
