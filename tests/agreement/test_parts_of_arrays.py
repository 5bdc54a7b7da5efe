"""Sums, softmaxes and attention over parts of arrays take nothing from around them, whatever it is."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable

import numpy as np
import pytest

from tessera import graph, op
from tessera.core.settings import overridden

LENGTH = 300
PARTS = (slice(0, 50), slice(100, 150), slice(0, 7), slice(1, LENGTH), slice(0, 100, 2), slice(150, 100, -1))


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def around(part: slice, axis: int, shape: tuple[int, ...], fill: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An array that is `fill` but for a part of one axis, and that part: normal numbers."""
    whole = np.full(shape, fill, np.float32)
    place = (*(slice(None) for _ in range(axis)), part)
    whole[place] = np.random.default_rng(seed).standard_normal(whole[place].shape)
    return whole, whole[place].copy()


def same(body: Callable[..., object], wanted: np.ndarray, *arrays: np.ndarray) -> None:
    found = graph.module("part")(body)(*arrays)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("fill", [7.0, np.nan, np.inf])
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_of_rows(part: slice, fill: float, target: str):
    x, mine = around(part, 1, (5, LENGTH), fill, 0)
    v, values = around(part, 0, (LENGTH, 9), fill, 1)
    with overridden(target=target):
        same(lambda x: op.sum(x[:, part], 1), mine.sum(1), x)
        same(lambda x: op.softmax(x[:, part]), softmax(mine), x)
        weighed = (softmax(mine) * mine).sum(1)
        same(lambda x: op.einsum("ba,ba->b", op.softmax(x[:, part]), x[:, part]), weighed, x)
        same(lambda x, v: op.softmax(x[:, part]) @ v[part], softmax(mine) @ values, x, v)
        same(lambda x, v: x[:, part] @ v[part], mine @ values, x, v)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("fill", [7.0, np.nan, np.inf])
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_of_keys_and_values(part: slice, fill: float, target: str):
    """A cache of keys and values of which the first ones are there: what comes behind them is any memory."""
    k, keys = around(part, 1, (2, LENGTH, 16), fill, 0)
    v, values = around(part, 1, (2, LENGTH, 8), fill, 1)
    q = np.random.default_rng(2).standard_normal((2, 20, 16)).astype(np.float32)
    wanted = softmax(q @ keys.transpose(0, 2, 1) / 4) @ values
    with overridden(target=target):
        same(lambda q, k, v: op.flash_attention(q, k[:, part], v[:, part]), wanted, q, k, v)
        same(lambda q, k, v: op.flash_attention(q, k[:, part], v), wanted, q, k, values)
        same(lambda q, k, v: op.flash_attention(q, k, v[:, part]), wanted, q, keys, v)
