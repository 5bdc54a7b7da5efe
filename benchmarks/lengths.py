"""Arrays of a new length at each call: time of the first call, and of shared code beside code for one length.

python benchmarks/lengths.py          on a GPU where torch has one, else on the CPU
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import tessera
from tessera import op
from tessera.core.settings import overridden

try:
    import torch as installed
except ImportError:
    installed = None

torch: Any = installed
ON_GPU: Final[bool] = torch is not None and torch.cuda.is_available()
Matrix = Any  # of NumPy or of torch
TEXT: Final = """
@kernel
def scores(x: f32[r, n], y: mut f32[r, n]):
    for i in tile.range(r):
        y[i, :] = tile.softmax(x[i, :])
"""
LENGTHS: Final = range(61, 2000, 37)
WIDTHS: Final = (100, 130, 700, 1000, 1025, 4000, 4096, 8000)
ELEMENTS: Final = 1 << 26 if ON_GPU else 1 << 19
CALLS: Final = 3
"""Calls per sample, few enough that the length keeps its shared code (`varying_extents.FREQUENT`)."""
_rng = np.random.default_rng(0)


def matrix(rows: int, width: int) -> Matrix:
    """Return random numbers, where kernels are measured."""
    values = _rng.standard_normal((rows, width), np.float32)
    return torch.tensor(values, device="cuda") if ON_GPU else values


def wait() -> None:
    """Wait for the GPU."""
    if ON_GPU:
        torch.cuda.synchronize()


def kernel_of(text: str) -> Callable[[Matrix], Matrix]:
    """Return a function that runs the kernel of a text."""
    kernel = tessera.compile_source(text).scores

    def call(x: Matrix) -> Matrix:
        y = torch.empty_like(x) if ON_GPU else np.empty_like(x)
        kernel(x, y)
        return y

    return call


def first_calls() -> Mapping[str, Mapping[str, float]]:
    """Return the median and the sum of the first calls of each length, in ms."""
    calls = {"kernel": kernel_of(TEXT), "op.softmax": op.softmax}
    with overridden(exact_extents=1 << 16):
        exact = {"kernel, each length compiled": _first(kernel_of("\n" + TEXT))}
    if torch is not None:
        torch.set_num_threads(tessera.configure().threads)
        calls["torch"] = lambda x: torch.softmax(x if ON_GPU else torch.from_numpy(x), 1)
    if ON_GPU:
        library: Any = torch
        calls["torch.compile"] = library.compile(lambda x: library.softmax(x, 1))
    return {**{name: _first(call) for name, call in calls.items()}, **exact}


def _first(call: Callable[[Matrix], Matrix]) -> Mapping[str, float]:
    spent: list[float] = []
    for width in LENGTHS:
        x = matrix(64, width)
        wait()
        begin = time.perf_counter()
        y = call(x)
        wait()
        spent.append((time.perf_counter() - begin) * 1e3)
        assert abs(float(y.sum()) - 64) < 1e-2
    return {"median": round(statistics.median(spent), 2), "sum": round(sum(spent), 1)}


def ratios() -> Mapping[int, Mapping[str, float]]:
    """Return the times of code for one width and of shared code, in us, which must give the same bits."""
    shared, own = kernel_of("\n\n" + TEXT), kernel_of("\n\n\n" + TEXT)
    for width in (50, 51):
        shared(matrix(2, width))
    table: dict[int, Mapping[str, float]] = {}
    for width in WIDTHS:
        x = matrix(ELEMENTS // width, width)
        with overridden(exact_extents=1 << 16):
            expected = own(x)
        assert bool((expected == shared(x)).all())
        times = {"own": [_us(own, x)], "shared": [_us(shared, x)]}
        for _ in range(2):
            times["own"].append(_us(own, x))
            times["shared"].append(_us(shared, x))
        own_us, shared_us = (min(times[name]) for name in ("own", "shared"))
        table[width] = {"own_us": own_us, "shared_us": shared_us, "own/shared": round(own_us / shared_us, 2)}
    return table


def _us(call: Callable[[Matrix], Matrix], x: Matrix) -> float:
    spent: list[float] = []
    for _ in range(CALLS):
        wait()
        begin = time.perf_counter()
        call(x)
        wait()
        spent.append(time.perf_counter() - begin)
    return round(min(spent) * 1e6, 1)


def main() -> None:
    """Print the figures."""
    card = torch.cuda.get_device_name() if ON_GPU else "CPU"
    print(json.dumps({"card": card, "new length, ms": first_calls(), "rows": ratios()}, indent=1))


if __name__ == "__main__":
    main()
