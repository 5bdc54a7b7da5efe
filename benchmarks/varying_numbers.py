"""A learning rate and a step number that change at each call: time of a call, beside one number and beside PyTorch.

python benchmarks/varying_numbers.py          on a GPU where torch has one, else on the CPU
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tessera import graph
from tessera.core.settings import current

try:
    import torch as installed
except ImportError:
    installed = None

torch: Any = installed
ON_GPU: Final[bool] = torch is not None and torch.cuda.is_available()
Matrix = Any  # of NumPy or of torch
SIDE: Final = 1024 if ON_GPU else 64
CALLS: Final = 2000
Step = Callable[[Matrix, Matrix, float, int], Matrix]


def step(w: Matrix, g: Matrix, rate: float, number: int) -> Matrix:
    """Return weights after a step whose rate is corrected as Adam's is."""
    return w - rate * g / (1 - 0.9**number)


def wait() -> None:
    """Wait for the GPU."""
    if ON_GPU:
        torch.cuda.synchronize()


def figures(call: Step, w: Matrix, g: Matrix) -> Mapping[str, float]:
    """Return the times of the first calls, in ms, and the host's time of later calls, in us."""
    first: list[float] = []
    for number in range(1, 7):
        begin = time.perf_counter()
        call(w, g, 0.1 / number, number)
        wait()
        first.append(round((time.perf_counter() - begin) * 1e3, 2))
    named = {f"call {number}, ms": spent for number, spent in enumerate(first, start=1)}
    return {**named, "numbers vary, us": host_us(call, w, g, 1), "one number, us": host_us(call, w, g, 0)}


def host_us(call: Step, w: Matrix, g: Matrix, stride: int) -> float:
    """Return the host's time of a call, the best of three rounds."""
    rounds: list[float] = []
    for _ in range(3):
        wait()
        begin = time.perf_counter()
        for number in range(CALLS):
            call(w, g, 0.1 / (1 + stride * number), 1 + stride * number)
        rounds.append((time.perf_counter() - begin) / CALLS * 1e6)
    return round(min(rounds), 1)


def main() -> None:
    """Print the figures."""
    values = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), np.float32)
    w, g = (torch.tensor(each, device="cuda") if ON_GPU else each for each in values)
    module: Any = graph.module  # its overloads keep what it decorates from being seen as a step
    calls: dict[str, Step] = {"tessera": module(step)}
    if installed is not None:
        torch.set_num_threads(current().threads)
        calls |= {"torch": step, "torch.compile": torch.compile(step)}
    card = torch.cuda.get_device_name() if ON_GPU else "CPU"
    table = {name: figures(each, w, g) for name, each in calls.items()}
    print(json.dumps({"card": card, "side": SIDE, **table}, indent=1))


if __name__ == "__main__":
    main()
