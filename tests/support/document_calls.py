"""Calls of every single-device kernel of the documents, in the form of `support.library`."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

import tessera
from support.documents import KERNELS
from support.library import Arrays, Call, bf16, f16, f32, normal
from tessera.core.base.reductions import tree_sum
from tessera.ops.recipes.launch_recipe import Launch, LaunchRecipe


@cache
def load(name: str) -> tessera.Kernel:
    """The kernel of a block of the documents."""
    text = KERNELS[name]
    host = text.find("\nlaunch.grid(")  # the host's own lines run in the tests, on the tests' data
    module = tessera.compile_source(text if host < 0 else text[:host])
    return next(value for value in vars(module).values() if isinstance(value, tessera.Kernel))


def _call(
    name: str, arguments: Callable[[], Arrays], outputs: tuple[int, ...], expected: Callable[..., Arrays],
    tolerance: float = 0.0,
) -> Call:  # fmt: skip
    """A call of kernel `name`; `outputs` are the places of the arguments that it writes."""

    def prepare(*values: object) -> LaunchRecipe[Any]:
        return LaunchRecipe((Launch(load(name), values),), lambda: tuple(values[i] for i in outputs))

    return Call(f"document-{name}", arguments, prepare, expected, tolerance, tolerance == 0)


def poison(*shape: int, dtype: DTypeLike = f32) -> np.ndarray:
    """An array that was not written."""
    return np.full(shape, np.nan, dtype)


def group_sums(x: np.ndarray, out: np.ndarray) -> Arrays:
    """Every group of 128 lanes adds everything: each lane its elements, then the lanes."""
    lanes = np.zeros(128, f32)
    for start in range(0, len(x), 128):
        part = x[start : start + 128]
        lanes[: len(part)] += part
    return (np.full(len(out), tree_sum(lanes, 0)),)


def warp_sums(x: np.ndarray, _: np.ndarray) -> Arrays:
    """Five shuffles down in each warp."""
    total = x.reshape(-1, 32).copy()
    for offset in (16, 8, 4, 2, 1):
        total[:, :offset] += total[:, offset : 2 * offset]
    return (total[:, 0],)


def axpy(x: np.ndarray, y: np.ndarray, alpha: float) -> Arrays:
    """The pipelines of the documents: the last block of 128 is copied and never used."""
    out, last = y.copy(), (len(x) - 1) // 128 * 128
    out[:last] = np.float16(alpha) * x[:last] + y[:last]
    return (out,)


def block_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, _: np.ndarray) -> Arrays:
    """Attention within each block of 128 rows."""
    want = np.zeros(q.shape)
    for at in range(0, len(q), 128):
        rows = slice(at, at + 128)
        s = q[rows].astype(np.float64) @ k[rows].astype(np.float64).T
        p = np.exp(s - s.max(axis=1, keepdims=True))
        want[rows] = p / p.sum(axis=1, keepdims=True) @ v[rows].astype(np.float64)
    return (want,)


def coop_example(x: np.ndarray) -> Arrays:
    """One cooperative group of 64 adds 1."""
    want = x.copy()
    want[:64] += 1
    return (want,)


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    """A matrix product in f64; what `c` holds does not count."""
    return (a.astype(np.float64) @ b.astype(np.float64),)


def fused_mlp(x: np.ndarray, w1: np.ndarray, b1: np.ndarray, w2: np.ndarray, b2: np.ndarray, _: np.ndarray) -> Arrays:
    """Two layers in f64."""
    return (np.maximum(x.astype(np.float64) @ w1 + b1, 0) @ w2 + b2,)


def _calls() -> Iterator[Call]:
    yield _call("scale", lambda: (normal(1000), poison(1000), 0.3), (1,), lambda x, _, a: (f32(a) * x,))
    yield _call("saxpy", lambda: (normal(4097), normal(4097) + 1, 0.3), (1,), lambda x, y, a: (f32(a) * x + y,))
    yield _call(
        "saxpy_launch", lambda: (0.3, normal(1000), normal(1000) + 1, poison(1000)), (3,),
        lambda a, x, y, _: (f32(a) * x + y,),
    )  # fmt: skip
    yield _call("group_sum", lambda: (normal(1000), poison(3)), (1,), group_sums)
    for name in ("axpy_tiled", "tp_axpy"):
        yield _call(name, lambda: (normal(700, dtype=f16), normal(700, dtype=f16) + f16(1), 0.5), (1,), axpy)
    shapes = ((200, 70), (70, 150))
    yield _call(
        "gemm_tc", lambda: (*(normal(*s, dtype=bf16) for s in shapes), poison(200, 150)), (2,), product, 1e-6
    )  # fmt: skip
    yield _call(
        "flash_attention", lambda: (*(normal(256, 64, dtype=f16) + f16(i / 8) for i in range(3)), poison(256, 64, dtype=f16)),
        (3,), block_attention, 2e-3,
    )  # fmt: skip
    yield _call("warp_reduce_sum", lambda: (normal(160), poison(5)), (1,), warp_sums)
    yield _call(
        "pipeline", lambda: (normal(64, 512), normal(512, 96), normal(64, 96)), (2,),
        lambda a, b, c: (product(a, b, c)[0] + c,), 1e-6,
    )  # fmt: skip
    yield _call("coop_example", lambda: (normal(100),), (0,), coop_example)
    sizes = ((70, 40), (40, 130), (130,), (130, 24), (24,))
    yield _call("fused_mlp", lambda: (*(normal(*s) for s in sizes), poison(70, 24)), (5,), fused_mlp, 1e-6)


CALLS: Final = tuple(_calls())
"""Every call; names are unique."""
