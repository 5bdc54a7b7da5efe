"""Operators run on arrays, at once and inside a graph, and compared with NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from support.targets import RUNNABLE
from tessera import graph
from tessera.core.settings import overridden

Array: TypeAlias = Any
"""An operand or a result: of NumPy, or a tracer."""
TARGETS: Final = RUNNABLE
FLOATS: Final[dict[str, DTypeLike]] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16
}  # fmt: skip
INTEGERS: Final[dict[str, DTypeLike]] = {"i32": np.int32, "i64": np.int64, "u8": np.uint8}
TOLERANCE: Final = {"f64": 1e-13, "f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}
"""A few units in the last place, relative to the largest element."""


def drawn(shape: Sequence[int], dtype: DTypeLike, seed: int = 0, low: float = -2.0, high: float = 2.0) -> NDArray[Any]:
    """Return uniform random numbers, the same ones for the same seed."""
    return np.random.default_rng((seed, *shape)).uniform(low, high, tuple(shape)).astype(dtype)


def everywhere(function: Callable[..., object], *arguments: object) -> NDArray[Any]:
    """Return what `function` gives on `cpu`, at once; it must give the same bits captured, and nearly on all targets."""
    results: dict[str, NDArray[Any]] = {}
    for target in TARGETS:
        with overridden(target=target):
            results[target] = np.asarray(function(*arguments))
            module = np.asarray(graph.module(function)(*arguments))
        np.testing.assert_array_equal(_bits(module), _bits(results[target]))
    eager = results["cpu"]
    for made in results.values():
        assert made.dtype == eager.dtype
        assert made.shape == eager.shape
        if made.dtype.kind in "iub":
            np.testing.assert_array_equal(made, eager)
        else:
            name = next((name for name, dtype in FLOATS.items() if eager.dtype == dtype), "f32")
            close(made, eager, 2 * TOLERANCE[name])
    return eager


def close(got: ArrayLike, want: ArrayLike, tolerance: float) -> None:
    """Equal up to `tolerance` of the largest finite element of `want`; infinities and NaN at the same places."""
    left, right = np.asarray(got).astype(np.float64), np.asarray(want).astype(np.float64)
    assert left.shape == right.shape
    finite = np.isfinite(right)
    np.testing.assert_array_equal(left[~finite], right[~finite])
    assert np.isfinite(left[finite]).all()
    largest = np.abs(right[finite]).max(initial=0.0)
    np.testing.assert_allclose(left[finite], right[finite], rtol=tolerance, atol=tolerance * largest)


def on_target(array: NDArray[Any], target: str) -> Array:
    """Return the array in the memory of a target: of CuPy for a GPU, itself for others."""
    return importlib.import_module("cupy").asarray(array) if target.startswith("cuda") else array


def on_host(array: Array) -> NDArray[Any]:
    """Return an array of NumPy or CuPy in host memory."""
    return array.get() if hasattr(array, "get") else array


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Return the bytes of an array, all NaNs being one: which of them an operation gives differs by hardware."""
    if array.dtype.kind not in "iub":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


COLLECTIVES = (
    "all_gather", "all_reduce", "all_to_all", "broadcast", "check_replicas", "permute", "reduce_scatter", "send_recv",
)  # fmt: skip
"""Operators on the values of all ranks of a mesh at once; `tests/ops/test_collectives.py` has their cases."""
