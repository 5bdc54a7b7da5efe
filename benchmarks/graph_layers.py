"""Layers, forward: products with what follows them, rows, and normalization before a product."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownArgumentType=false
# ruff: noqa: PLW0108, E501, ARG005

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from graph_measure import Case, normal
from tessera import graph, op


def layer_cases(compiled: bool) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the rows: names, and what makes them."""
    yield "mlp gelu 4096x4096x16384", partial(_mlp, compiled)
    yield "swiglu 16384x4096x11008", partial(_swiglu, compiled)
    yield "rmsnorm+gemm 8192x4096x4096", partial(_normalized, compiled, "rmsnorm")
    yield "layernorm+gemm 8192x4096x4096", partial(_normalized, compiled, "layernorm")
    for kind in ("rmsnorm", "layernorm"):
        yield f"{kind}+gemm, no gain", partial(_normalized, compiled, kind, gained=False)
    for name in ("softmax", "rmsnorm", "layernorm", "relu(x + gain)"):
        yield f"{name} 8192x4096", partial(_rows, compiled, name)


def with_peers(ours: Callable[[], Any], theirs: Callable[[], Any], compiled: bool) -> dict[str, Callable[[], Any]]:
    """Return ours beside torch, eager and compiled."""
    return {"tessera": ours, "eager": theirs, **({"compile": torch.compile(theirs)} if compiled else {})}


def _mlp(compiled: bool) -> Case:
    m, n, k = 4096, 16384, 4096
    x, a, b = normal(m, k), normal(k, n, scale=k**-0.5), normal(n, k, scale=n**-0.5)
    mine = graph.module("mlp")(lambda x, a, b: op.gemm(op.gelu(op.gemm(x, a)), b))
    return Case("mlp gelu 4096x4096x16384", 4.0 * m * n * k, "TFLOP/s",
                with_peers(lambda: mine(x, a, b), lambda: functional.gelu(x @ a) @ b, compiled),
                lambda: functional.gelu(x[:64].double() @ a.double()) @ b.double(), lambda y: y[:64], mine, 1.0)  # fmt: skip


def _swiglu(compiled: bool) -> Case:
    m, n, k = 16384, 11008, 4096
    x, a, b = normal(m, k), normal(k, n, scale=k**-0.5), normal(k, n, scale=k**-0.5)
    mine = graph.module("swiglu")(lambda x, a, b: op.silu(op.gemm(x, a)) * op.gemm(x, b))
    return Case("swiglu 16384x4096x11008", 4.0 * m * k * n, "TFLOP/s",
                with_peers(lambda: mine(x, a, b), lambda: functional.silu(x @ a) * (x @ b), compiled),
                lambda: functional.silu(x[:64].double() @ a.double()) * (x[:64].double() @ b.double()),
                lambda y: y[:64], mine, 1.02)  # fmt: skip


def _normalized(compiled: bool, kind: str, *, gained: bool = True) -> Case:
    """A normalization before a product; `gemm alone` shows what there is to gain, and is no peer of the ratio's."""
    m, n, k = 8192, 4096, 4096
    x, w = normal(m, k), normal(k, n, scale=k**-0.5)
    gain, shift = normal(k), normal(k)

    def ours(x: Any, g: Any, b: Any, w: Any) -> Any:
        if not gained:
            return op.gemm(op.rmsnorm(x) if kind == "rmsnorm" else op.layernorm(x), w)
        return op.gemm(op.rmsnorm(x, g) if kind == "rmsnorm" else op.layernorm(x, g, b), w)

    def theirs(x: Any, g: Any, b: Any, w: Any) -> Any:
        g, b = (g, b) if gained else (None, None)
        made = functional.rms_norm(x, (k,), g, 1e-6) if kind == "rmsnorm" else functional.layer_norm(x, (k,), g, b)
        return made @ w

    mine = graph.module(f"{kind}_gemm", algebra="real")(ours)
    peers = with_peers(lambda: mine(x, gain, shift, w), lambda: theirs(x, gain, shift, w), compiled)
    alone = graph.module("gemm")(lambda x, w: op.gemm(x, w))
    return Case(f"{kind}+gemm{'' if gained else ', no gain'} 8192x4096x4096", 2.0 * m * n * k, "TFLOP/s",
                {**peers, "our gemm alone": lambda: alone(x, w), "cublas alone": lambda: x @ w},
                lambda: theirs(x[:64].double(), gain.double(), shift.double(), w.double()),
                lambda y: y[:64], mine, 1 / 1.05, apart=("our gemm alone", "cublas alone"))  # fmt: skip


def _rows(compiled: bool, name: str) -> Case:
    x, gain = normal(8192, 4096), normal(4096)
    ours, theirs = {
        "softmax": (lambda x, g: op.softmax(x), lambda x, g: torch.softmax(x, -1)),
        "rmsnorm": (lambda x, g: op.rmsnorm(x, g), lambda x, g: functional.rms_norm(x, (4096,), g, 1e-6)),
        "layernorm": (lambda x, g: op.layernorm(x, g, g), lambda x, g: functional.layer_norm(x, (4096,), g, g)),
        "relu(x + gain)": (lambda x, g: op.relu(x + g), lambda x, g: torch.relu(x + g)),
    }[name]
    mine = graph.module(name)(ours)
    return Case(f"{name} 8192x4096", 4.0 * x.numel(), "GB/s",
                with_peers(lambda: mine(x, gain), lambda: theirs(x, gain), compiled),
                lambda: theirs(x.double(), gain.double()), lambda y: y, mine)  # fmt: skip
