"""Small graphs on the CPU, where a call costs more than its work: time of a call, beside PyTorch's.

python benchmarks/host_calls.py [results.json]
"""

# Libraries that stand beside this one are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import tessera
from tessera import graph, op
from tessera.core.settings import current

try:
    import torch as installed
except ImportError:
    installed = None

torch: Any = installed
Matrix = Any  # of NumPy or of torch
LAYERS: Final = 6
ROUNDS: Final = 9
CALLS: Final = 200


def microseconds(run: Callable[[], object]) -> float:
    """Return the time of a call, the best of some rounds."""
    for _ in range(20):
        run()
    rounds: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            run()
        rounds.append((time.perf_counter() - begin) / CALLS * 1e6)
    return round(min(rounds), 1)


def arrays() -> tuple[Matrix, list[Matrix]]:
    """Return a batch of 32 rows, and the weights of six layers of 64 x 64."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((32, 64), np.float32), [
        rng.standard_normal((64, 64), np.float32) / 8 for _ in range(LAYERS)
    ]


def tessera_times() -> Mapping[str, float]:
    """Return the times of calls of this library."""
    x, weights = arrays()

    def layers(weights: Matrix, x: Matrix) -> Matrix:
        for weight in weights:
            x = op.gelu(x @ weight)
        return x

    scaled: Any = graph.module("scaled")(lambda v: v * 2.0 + 1.0)
    forward: Any = graph.module("layers")(layers)
    step: Any = tessera.value_and_grad(lambda weights, x: op.mean(layers(weights, x) ** 2))
    return {
        "scaled": microseconds(lambda: scaled(x)), "softmax": microseconds(lambda: op.softmax(x)),
        "layers": microseconds(lambda: forward(weights, x)), "step": microseconds(lambda: step(weights, x)),
    }  # fmt: skip


def torch_times(compiled: bool) -> Mapping[str, float]:
    """Return the times of the same in PyTorch, as it is or compiled."""
    x, weights = arrays()
    x, weights = torch.from_numpy(x), [torch.from_numpy(each).requires_grad_() for each in weights]
    prepared: Callable[..., Any] = torch.compile if compiled else lambda function: function

    def layers(weights: Matrix, x: Matrix) -> Matrix:
        for weight in weights:
            x = torch.nn.functional.gelu(x @ weight)
        return x

    scaled, forward = prepared(lambda v: v * 2.0 + 1.0), prepared(layers)
    softmax, loss = prepared(lambda v: torch.softmax(v, -1)), prepared(lambda w, v: (layers(w, v) ** 2).mean())

    def without_gradients(function: Callable[..., Any], *operands: Matrix) -> float:
        with torch.no_grad():
            return microseconds(lambda: function(*operands))

    return {
        "scaled": without_gradients(scaled, x), "softmax": without_gradients(softmax, x),
        "layers": without_gradients(forward, weights, x),
        "step": microseconds(lambda: torch.autograd.grad(loss(weights, x), weights)),
    }  # fmt: skip


def main() -> None:
    """Print the figures, and write them where a path is given."""
    table: dict[str, object] = {"machine": platform.processor() or platform.machine(), "threads": current().threads}
    table["tessera, us"] = tessera_times()
    if torch is not None:
        torch.set_num_threads(current().threads)
        table |= {
            "torch": torch.__version__,
            "torch, us": torch_times(compiled=False),
            "torch.compile, us": torch_times(compiled=True),
        }
    text = json.dumps(table, indent=1)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
