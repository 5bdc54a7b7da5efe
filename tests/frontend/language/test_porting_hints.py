"""Remedies for names of CUDA, Triton, NumPy ...: in any spelling, and such that they can be followed."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from tessera.core.errors.catalog import UndefinedName, UnknownAttribute
from tessera.frontend.language.porting_hints import (
    RECIPES,
    is_known_elsewhere,
    remedy_for,
    remedy_for_callable,
    remedy_for_path,
)


@pytest.mark.parametrize(("name", "other"), [("__shfl_down_sync", "shfl_down"), ("threadIdx", "thread_idx")])
def test_any_spelling(name: str, other: str):
    assert remedy_for(name)
    assert remedy_for(name) == remedy_for(other)


@pytest.mark.parametrize("name", ["atomicAdd", "atomic_max", "tl_atomic"])
def test_atomics_whatever_they_do(name: str):
    assert bool(remedy_for(name)) == name.startswith("atomic")


def test_names_of_tessera_need_none():
    assert not any(remedy_for(name) for name in dir(tessera.tile))


def test_remedies_can_be_followed():
    module = tessera.compile_source("""
@kernel
def remedies(t: f32[n], out: mut f32[5], index: mut i64[2]):
    row = t[:]
    most, least = t[0], t[0]
    first, last = 0, 0
    for i in range(n):
        v = t[i]
        first = tile.where(v > most, i, first)
        most = tile.maximum(most, v)
        last = tile.where(v < least, i, last)
        least = tile.minimum(least, v)
    index[0] = first
    index[1] = last
    out[0] = tile.sum(row) / n
    out[1] = tile.sqrt(tile.sum(row * row))
    out[2] = 1.0 if tile.max(row > 1.5) else 0.0
    out[3] = 1.0 if tile.min(row > 0.0) else 0.0
    out[4] = tile.max(row) + tile.log(tile.sum(tile.exp(row - tile.max(row))))
""")
    t = np.array([1.0, 0.25, 2.0, 0.5], np.float32)
    out, index = np.zeros(5, np.float32), np.zeros(2, np.int64)
    module.remedies(t, out, index)
    assert index.tolist() == [2, 1]
    assert np.allclose(out, [t.mean(), float(np.linalg.norm(t)), 1, 1, np.log(np.exp(t).sum())])


def test_the_scan_can_be_followed():
    module = tessera.compile_source("""
@kernel
def scan(x: f32[n], y: mut f32[n]):
    before = 0.0
    for block in range(0, n, 64):
        t = x[block:block+64]
        upper = tile.where(tile.arange(64)[:, None] <= tile.arange(64)[None, :], 1.0, 0.0)
        sums = tile.dot(t[None, :], upper) + before
        y[block:block+64] = tile.reshape(sums, (64,))
        before = before + tile.sum(t)
""")
    x = np.random.default_rng(1).random(256, np.float32)
    y = np.zeros_like(x)
    module.scan(x, y)
    assert "tile.arange(64)[:, None] <= tile.arange(64)[None, :], 1.0, 0.0" in remedy_for("associative_scan")
    assert np.allclose(y, np.cumsum(x), rtol=1e-5)


MEANT: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
    "gelu": lambda v: v * (1 + np.vectorize(math.erf)(v / math.sqrt(2))) / 2,
    "softplus": lambda v: np.log1p(np.exp(v)),
    "erfc": np.vectorize(math.erfc),
    "leakyrelu": lambda v: np.where(v > 0, v, 0.01 * v),
    "elu": lambda v: np.where(v > 0, v, np.expm1(v)),
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_compute_what_they_say(name: str):
    function = MEANT.get(name) or getattr(np, name)
    low, high = {"arctanh": (-0.9, 0.9), "arccosh": (1.1, 9.0), "log10": (0.1, 9.0)}.get(name, (-4.0, 4.0))
    v = np.linspace(low, high, 40).astype(np.float32) + np.float32(1e-3)
    if name in ("isnan", "isinf", "isfinite"):
        v[:3] = np.nan, np.inf, -np.inf
    if name in ("expm1", "log1p"):
        v = np.array([1e-7, -1e-7, 1e-4, 0.3, -0.4, 0.9, 5.0], np.float32)
    text = f"@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    v = x[:]\n    y[:] = tile.cast({RECIPES[name]}, f32)\n"
    y = np.zeros_like(v)
    tessera.compile_source(text).k(v, y)
    np.testing.assert_allclose(y, function(v.astype(np.float64)), rtol=3e-5, atol=1e-30 if name == "expm1" else 1e-6)


FOREIGN = [
    "tan", "sinh", "sign", "isinf", "atan", "asin", "expm1", "log1p", "argsort", "round", "concat", "bitcast", "acos",
    "atan2", "cumprod", "clamp", "clip", "prod", "isnan", "silu", "gelu", "log_softmax", "randn",
    "erfc", "topk", "permute", "unsqueeze", "make_block_ptr", "cdiv", "device_print", "popc"
]  # fmt: skip


def test_names_from_elsewhere_are_no_slips_of_the_pen():
    """No name that means something in another library is answered by the name of another operation."""
    foreign = {*FOREIGN, *dir(np), *dir(math)} - set(dir(tessera.tile))
    assert [name for name in sorted(foreign) if not is_known_elsewhere(name)] == []


@pytest.mark.parametrize("name", FOREIGN)
def test_no_operation_is_suggested_that_means_something_else(name: str):
    module = tessera.compile_source(f"@kernel\ndef k(y: mut f32[n]):\n    y[0] = tile.{name}(y[0])\n")
    with pytest.raises(UnknownAttribute) as caught:
        module.k(np.zeros(2, np.float32))
    assert "did you mean" not in caught.value.hint
    assert caught.value.hint


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("tl.load", "read and write by index or slice"),
        ("tl.program_id", "write group_linear_id()"),
        ("tl.exp", "write tile.exp(...)"),
        ("cuda.grid", "write launch.thread_id()"),
        ("cuda.syncthreads", "write tbarrier()"),
        ("cuda.threadIdx.x", "write tile.linear_id()"),
        ("cuda.shared.array", "write tshared.alloc[f32](128)"),
        ("cuda.local.array", "a lane has no arrays of its own"),
        ("cuda.atomic.add", "there are no atomic operations"),
        ("np.pi", "import numpy as np before the kernel, or write 3.14159"),
        ("np.inf", "import numpy as np before the kernel"),
        ("np.float32", "write f32(...)"),
        ("math.exp", "write tile.exp(...)"),
        ("torch.nn.functional.gelu", "write v * (1 + tile.erf("),
        ("torch.nothing", "use the operations of tile"),
        ("np", "use the operations of tile"),
    ],
)
def test_libraries_that_a_kernel_does_not_know(written: str, hint: str):
    assert remedy_for_path(written.split(".")).startswith(hint)
    module = tessera.compile_source(f"@kernel\ndef k(y: mut f32[n]):\n    y[0] = {written}(1)\n")
    with pytest.raises(UndefinedName) as caught:
        module.k(np.zeros(2, np.float32))
    assert caught.value.hint.startswith(hint)
    assert f"\n     |            {'^' * len(written)}\n" in str(caught.value)


def test_functions_that_a_kernel_cannot_call():
    assert remedy_for_callable(np.exp) == "write tile.exp(...)"
    assert remedy_for_callable(np.int8) == "write i8(...)"
    assert remedy_for_callable(np.complex64).startswith("there is no such operation")
    assert remedy_for_callable(print).startswith("store the value to an array")
    assert remedy_for_callable(object()) == ""
