"""Calls like earlier ones: what was decided is found again, and what it does not fit is decided anew."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.library import normal
from tessera.core.errors.catalog import BadKernelOption, OperandMismatch, OverlappingArrays, ReadOnlyArray
from tessera.core.settings import overridden
from tessera.ops import flash_attention, gemm, layernorm, matrix, rmsnorm, softmax, transpose
from tessera.ops.recipes import recipe_cache
from tessera.ops.recipes.recipe_cache import Part, _key


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """No recipes, and none for other tests."""
    monkeypatch.setattr(recipe_cache._Known, "recipes", {})
    monkeypatch.setattr(recipe_cache._Known, "settings", None)
    return recipe_cache._Known.recipes


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("it should have been found")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_product_like_an_earlier_one(monkeypatch: pytest.MonkeyPatch, transposed: bool, with_bias: bool):
    a, bias = normal(20, 24), normal(12) if with_bias else None
    b = normal(12, 24).T if transposed else normal(24, 12)
    gemm(a, b, bias=bias)
    monkeypatch.setattr(matrix, "prepare_gemm", refuse)
    for _ in range(2):
        a, b = normal(20, 24) + 1, b * 2 if not transposed else (b.T * 2).T
        got = gemm(a, b, bias=bias)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, a @ b + (0 if bias is None else bias), rtol=1e-4, atol=1e-4)
    with pytest.raises(AssertionError, match="should have been found"):
        gemm(a, b, bias=bias, activation="relu")
    with pytest.raises(AssertionError, match="should have been found"):
        gemm(a, b, bias=bias, schedule={"BM": 32})


def test_a_result_that_is_given(monkeypatch: pytest.MonkeyPatch):
    square, out = normal(16, 16), np.zeros((16, 16), np.float32)
    assert gemm(square, square, out) is out
    monkeypatch.setattr(matrix, "prepare_gemm", refuse)
    other = np.zeros_like(out)
    assert gemm(square, square, other) is other
    np.testing.assert_allclose(other, square @ square, rtol=1e-4, atol=1e-4)
    monkeypatch.undo()
    with pytest.raises(OverlappingArrays, match="out lies in the memory of a"):
        gemm(square, other, square)
    other.flags.writeable = False
    with pytest.raises(ReadOnlyArray):
        gemm(square, square, other)


def test_mistakes_are_found_in_every_call():
    a, b = normal(8, 8), normal(8, 8)
    gemm(a, b)
    for _ in range(2):
        with pytest.raises(OperandMismatch, match="times"):
            gemm(a, normal(9, 8))
        with pytest.raises(BadKernelOption, match="no tuning parameter"):
            gemm(a, b, schedule={"BX": 3})
        with pytest.raises(OperandMismatch, match="no activation"):
            gemm(a, b, activation="tanh")


def test_other_functions(known: dict[Any, Any]):
    x, w = normal(3, 5, 40), normal(40)
    q = normal(1, 2, 16, 16)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    scores = q @ q.swapaxes(2, 3) / 4
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    for _ in range(2):
        np.testing.assert_allclose(softmax(x), np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(
            layernorm(x, w, w), (x - mean) / np.sqrt(variance + 1e-5) * w + w, rtol=1e-3, atol=1e-5
        )
        np.testing.assert_allclose(rmsnorm(x, w), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w, rtol=1e-4)
        np.testing.assert_array_equal(transpose(x), x.swapaxes(1, 2))
        np.testing.assert_allclose(flash_attention(q, q, q), weights @ q, rtol=1e-4, atol=1e-5)
    assert len(recipe_cache._Known.recipes) == 5
    layernorm(x, w, w, eps=0.5)
    assert len(recipe_cache._Known.recipes) == 6


def test_settings_begin_anew(monkeypatch: pytest.MonkeyPatch):
    a = normal(8, 8)
    gemm(a, a)
    with overridden(target="interpret"):
        np.testing.assert_allclose(gemm(a, a), a @ a, rtol=1e-4, atol=1e-4)
        assert len(recipe_cache._Known.recipes) == 1
    monkeypatch.setattr(matrix, "prepare_gemm", refuse)
    with pytest.raises(AssertionError):
        gemm(a, a)


def test_they_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recipe_cache, "_KEPT", 4)
    for rows in range(1, 12):
        softmax(normal(rows, 8))
    assert 1 <= len(recipe_cache._Known.recipes) <= 4


def test_what_tells_arrays_apart():
    x = normal(8, 8)
    keys = [_key(("f",), (value,), {})[0] for value in (x, x.T, x[:4], x.astype(np.float16), None, x[:, 1:], x[:, 4:])]
    assert len(set(keys)) == 7
    assert _key(("f",), (x,), {"stream": 3})[0] == keys[0]
    assert _key(("f",), (x,), {"tune": True})[0] != keys[0]
    for unknown in (x.data, [1.0], SimpleNamespace()):
        assert _key(("f",), (x, unknown), {})[0] is None


def test_parts():
    x = normal(4, 6)
    assert Part(0).of((x,)) is x
    assert Part(0, shape=(4, 6)).of((x,)) is x
    turned, reshaped = Part(1, turned=True).of((None, x)), Part(0, shape=(2, 12)).of((x,))
    assert isinstance(turned, np.ndarray)
    assert isinstance(reshaped, np.ndarray)
    assert np.shape(turned) == (6, 4)
    assert np.shape(reshaped) == (2, 12)
