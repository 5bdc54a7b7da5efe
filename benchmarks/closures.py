"""Host time of a call on a GPU: weights that a function closes over, beside weights that it is given, and torch.

python benchmarks/closures.py
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tessera import graph, op

Tensor = Any  # of torch
LAYERS, WIDTH, ROWS = 24, 1024, 64
_rng = np.random.default_rng(0)


def _matrix(rows: int) -> Tensor:
    return torch.tensor(_rng.standard_normal((rows, WIDTH)) / 32, dtype=torch.bfloat16, device="cuda")


weights = [_matrix(WIDTH) for _ in range(LAYERS)]
x = _matrix(ROWS)


@graph.module("closed")
def closed(v: Tensor) -> Tensor:
    """Return the layers of v, with weights that are a global list."""
    for w in weights:
        v = op.tanh(v @ w)
    return v


@graph.module("transposed")
def transposed(v: Tensor) -> Tensor:
    """Return the layers of v, with the transposes of weights that are a global list."""
    for w in weights:
        v = op.tanh(v @ w.T)
    return v


@graph.module("given")
def given(v: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """Return the layers of v, with weights that are an argument."""
    for w in layers:
        v = op.tanh(v @ w)
    return v


def eager() -> Tensor:
    """Return the layers as torch computes them."""
    v = x
    for w in weights:
        v = torch.tanh(v @ w)
    return v


def renew() -> None:
    """Put other tensors into the list, as a step of an optimizer does."""
    weights[:] = [w.clone() for w in weights]


def host_us(call: Callable[[], object], calls: int) -> float:
    """Return the least microseconds of the host a call, of 7 samples."""
    for _ in range(5):
        call()
    samples: list[float] = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - begin) / calls)
    return round(min(samples) * 1e6, 1)


def main() -> None:
    """Check the results, and print the figures."""
    for found in (closed(x), given(x, weights)):
        torch.testing.assert_close(found.float(), eager().float(), atol=3e-2, rtol=0)
    rows = {
        "closed over": host_us(lambda: closed(x), 200), "transposes closed over": host_us(lambda: transposed(x), 200),
        "given": host_us(lambda: given(x, weights), 200), "torch, eager": host_us(eager, 200),
        "closed over, new ones each call": host_us(lambda: (renew(), closed(x)), 50),
        "given, new ones each call": host_us(lambda: (renew(), given(x, weights)), 50),
    }  # fmt: skip
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "us": rows}, indent=1))


if __name__ == "__main__":
    main()
