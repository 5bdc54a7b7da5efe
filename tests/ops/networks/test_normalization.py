"""Normalizations against NumPy in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportCallIssue=false

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TARGETS, TOLERANCE, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Numbers = NDArray[Any]


def normalized(x: NDArray[Any], eps: float = 1e-5) -> NDArray[Any]:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normalization_with_weights(dtype: str):
    kind = FLOATS[dtype]
    x, w, b = drawn((3, 5, 40), kind, 1), drawn((40,), kind, 2), drawn((40,), kind, 3)
    wide, weight, bias = (each.astype(np.float64) for each in (x, w, b))
    close(everywhere(op.layernorm, x), normalized(wide), 2 * TOLERANCE[dtype])
    close(
        everywhere(lambda *a: op.layernorm(*a, eps=0.1), x, w, b),
        normalized(wide, 0.1) * weight + bias,
        2 * TOLERANCE[dtype],
    )
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    close(everywhere(op.rmsnorm, x), want, 2 * TOLERANCE[dtype])
    close(everywhere(op.rmsnorm_safe, x, w), want * weight, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(6, 8), (3, 6, 8), (1, 8), (6, 1)])
def test_normalization_of_the_axes_that_weights_have(shape: tuple[int, ...]):
    """As PyTorch's `normalized_shape` says it."""
    x = drawn((2, *((3,) if len(shape) < 3 else ()), *shape), np.float32, 1)
    w, b = drawn(shape, np.float32, 2), drawn(shape, np.float32, 3)
    axes = tuple(range(-len(shape), 0))
    centred = (wide := x.astype(np.float64)) - wide.mean(axes, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    close(everywhere(op.layernorm, x, w, b), layer * w + b, 1e-5)
    close(everywhere(lambda x, b: op.layernorm(x, bias=b), x, b), layer + b, 1e-5)
    rms = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-6)
    close(everywhere(op.rmsnorm, x, w), rms * w, 1e-5)


@pytest.mark.parametrize("axis", [0, -2, (0, 1), (0, 2), (0, 1, 2)])
def test_normalization_of_axes_that_are_named(axis: int | tuple[int, ...]):
    x, w = drawn((3, 5, 8), np.float32, 1), drawn((5, 8), np.float32, 2)
    centred = (wide := x.astype(np.float64)) - wide.mean(axis, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 1e-5)
    close(everywhere(lambda x, w: op.layernorm(x, w, axis=axis), x, w), layer * w, 1e-5)
    rms = wide / np.sqrt((wide**2).mean(axis, keepdims=True) + 1e-6)
    close(everywhere(lambda x: op.rmsnorm(x, axis=axis), x), rms, 1e-5)


def test_safe_normalization():
    x = np.stack([np.zeros(64), 1e4 + np.arange(64) % 2]).astype(np.float32)
    np.testing.assert_array_equal(everywhere(op.rmsnorm_safe, x)[0], 0)
    close(everywhere(op.layernorm_safe, x), normalized(x.astype(np.float64)), 1e-4)


@settings(max_examples=8)
@given(
    shape=st.lists(st.integers(1, 20), min_size=1, max_size=3).map(tuple), dtype=st.sampled_from(sorted(FLOATS)),
    name=st.sampled_from(["layernorm", "rmsnorm"]),
)  # fmt: skip
def test_rows_of_any_shape(shape: tuple[int, ...], dtype: str, name: str):
    x = drawn(shape, FLOATS[dtype])
    wide = x.astype(np.float64)
    rms = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    close(everywhere(getattr(op, name), x), normalized(wide) if name == "layernorm" else rms, 4 * TOLERANCE[dtype])


def test_integers_give_f32():
    x = drawn((3, 5), np.int32, low=-5, high=5)
    close(everywhere(op.layernorm, x), normalized(x.astype(np.float64)), 4e-6)


def along(x: Numbers, axes: tuple[int, ...], eps: float) -> Numbers:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


@settings(max_examples=25)
@given(
    batch=st.integers(1, 3), groups=st.integers(1, 3), share=st.integers(1, 3), eps=st.sampled_from([1e-5, 0.1]),
    space=st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple), dtype=st.sampled_from(sorted(FLOATS)),
    options=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)  # fmt: skip
def test_channels_of_any_shape(
    batch: int, groups: int, share: int, eps: float, space: tuple[int, ...], dtype: str, options: tuple[bool, ...]
):
    (gained, shifted, last), channels, area = options, groups * share, math.prod(space)
    x = drawn((batch, channels, *space), FLOATS[dtype], 1)
    w, b = drawn((channels,), FLOATS[dtype], 2), drawn((channels,), FLOATS[dtype], 3)
    column = (channels, *(1,) * len(space))
    scale = w.astype(np.float64).reshape(column) if gained else 1.0
    shift = b.astype(np.float64).reshape(column) if shifted else 0.0
    arguments = {"weight": w if gained else None, "bias": b if shifted else None, "eps": eps}
    wide, axes = x.astype(np.float64), (0, *range(2, x.ndim))
    tolerance = 8 * TOLERANCE[dtype]
    with overridden(target="interpret"):
        if batch * area > 1:
            want = along(wide, axes, eps) * scale + shift
            turned, axis = (np.moveaxis(x, 1, -1), -1) if last else (x, 1)
            got = np.asarray(op.batch_norm(turned, axis=axis, **arguments))
            assert got.dtype == x.dtype
            close(np.moveaxis(got, -1, 1) if last else got, want, tolerance)
        if area > 1:
            want = along(wide, tuple(range(2, x.ndim)), eps) * scale + shift
            close(op.instance_norm(x, **arguments), want, tolerance)
        if share * area > 1:
            split = wide.reshape(batch, groups, share, *space)
            want = along(split, tuple(range(2, split.ndim)), eps).reshape(x.shape) * scale + shift
            close(op.group_norm(x, groups, **arguments), want, tolerance)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_channels_by_the_statistics_of_a_data_set(dtype: str):
    x, mean = drawn((3, 5, 4), FLOATS[dtype], 1), drawn((5,), np.float32, 2)
    var, w = drawn((5,), np.float32, 3, 0.5, 2.0), drawn((5,), np.float32, 4)
    got = everywhere(op.batch_norm, x, mean, var, w, mean)
    assert got.dtype == x.dtype
    column = [each.astype(np.float64)[:, None] for each in (mean, var, w)]
    want = (x.astype(np.float64) - column[0]) / np.sqrt(column[1] + 1e-5) * column[2] + column[0]
    close(got, want, 4 * TOLERANCE[dtype])


def test_large_means_do_no_harm():
    x = (1e4 + drawn((4, 6, 32), np.float64)).astype(np.float32)
    want = along(x.astype(np.float64), (0, 2), 1e-5)
    close(everywhere(op.batch_norm, x), want, 1e-3)
    close(everywhere(lambda x: op.group_norm(x, 6), x), along(x.astype(np.float64), (2,), 1e-5), 1e-3)


P_NORMS = (1.0, 2.0, 3.5, 100.0, math.inf)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_division_by_norms(dtype: str):
    x = drawn((3, 7, 5), FLOATS[dtype], 1)
    x[0, :, 1] = 0
    wide = x.astype(np.float64)
    got = everywhere(lambda x: op.stack([op.normalize(x, p) for p in P_NORMS]), x)
    assert got.dtype == x.dtype
    for p, each in zip(P_NORMS, got, strict=True):
        norm = np.linalg.norm(wide, p, 1, keepdims=True) if p != 100 else np.abs(wide).max(1, keepdims=True)
        close(each, wide / np.maximum(norm, 1e-12), max(0.02 if p == 100 else 0.0, 8 * TOLERANCE[dtype]))


@pytest.mark.parametrize("target", TARGETS)
def test_norms_of_zeros_and_of_extreme_numbers(target: str):
    x = np.array([[0.0, -0.0, 0.0], [3e-30, 4e-30, 0.0], [3e18, -4e18, 0.0], [1.0, 1.0, -1.0]], np.float32)
    with overridden(target=target):
        results, slopes = tessera.vjp(lambda x: op.stack([op.normalize(x, p) for p in P_NORMS]), x)
        (slope,) = slopes(np.ones((len(P_NORMS), *x.shape), np.float32))
        values = np.asarray(results)
    assert np.isfinite(values).all()
    assert np.isfinite(np.asarray(slope)).all()
    np.testing.assert_array_equal(values[:, 0], 0)
    np.testing.assert_allclose(np.asarray(slope)[0], len(P_NORMS) * 1e12, rtol=1e-6)
    np.testing.assert_allclose(values[1, 1:3], [[3e-18, 4e-18, 0.0], [0.6, -0.8, 0.0]], rtol=1e-6)


@pytest.mark.parametrize("p", P_NORMS)
def test_derivatives_of_divisions_by_norms(p: float):
    with overridden(target="interpret"):
        assert tessera.check_adjoint(lambda x: op.normalize(x, p, axis=(0, 2)), drawn((3, 2, 5), np.float64, 4)).within(
            1e-5
        )


def test_the_greatest_number_is_not_cut_by_large_powers():
    x = np.array([[50.0, -100.0, 10.0]], np.float32)
    np.testing.assert_allclose(np.asarray(op.normalize(x, 60.0)), x / 100.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.layernorm(x, x[:, :3]), "do not broadcast together"),
        (lambda x: op.rmsnorm(x, x[:1]), "do not broadcast together"),
        (lambda x: op.layernorm(x, axis=(0, -2)), "names an axis twice"),
        (lambda x: op.rmsnorm(x, x[:, :3]), "do not broadcast together"),
        (lambda x: op.layernorm(x.sum()), "has no axis -1"),
        (lambda x: op.batch_norm(x, x[0], None), "has mean and no var"),
        (lambda x: op.batch_norm(x, None, x[0]), "has var and no mean"),
        (lambda x: op.batch_norm(x, x, x), "a mean of (3, 4) for 4 channels along axis 1 of (3, 4)"),
        (lambda x: op.batch_norm(x[:1]), "one value has no variance"),
        (lambda x: op.batch_norm(x, axis=2), "has no axis 2"),
        (lambda x: op.group_norm(x, 3), "4 channels of (3, 4) do not make 3 equal groups"),
        (lambda x: op.group_norm(x, 0), "do not make 0 equal groups"),
        (lambda x: op.group_norm(x, 4), "one value has no variance"),
        (op.instance_norm, "no axis after the channels"),
        (lambda x: op.instance_norm(x[..., None]), "one value has no variance"),
        (lambda x: op.instance_norm(x[None], x[0]), "a weight of (4,) for 3 channels"),
        (lambda x: op.normalize(x, math.nan), "no nan-norm"),
        (lambda x: op.normalize(x, axis=(1, -1)), "names an axis twice"),
    ],
)
def test_bad_operands(call: Callable[[Numbers], object], message: str):
    with pytest.raises(OperandMismatch) as raised:
        call(drawn((3, 4), np.float32))
    first, _, listing = str(raised.value).partition("\n")  # the listing shows the line of the call, and so the message
    assert message in first
    assert "test_normalization.py, line" in listing
    assert "^^^^" in listing
