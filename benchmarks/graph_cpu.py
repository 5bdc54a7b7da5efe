"""Speed of operator graphs on the CPU beside torch (eager and torch.compile), in one run, in turns.

    python3 benchmarks/graph_cpu.py [--rows block,mlp] [--no-compile] [--out FILE]

Each row first checks every contender's result against f64 on random inputs, then times all in turns, each time after a
pause and a call that is not counted: OpenMP's threads go on looking for work after a product, and slow down what others
run on the same cores meanwhile.  The median of all calls counts.  Ratios are the time of the best peer over ours.
Everybody uses all cores.
"""

# torch is not installed where types are checked: what comes from it is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import tessera  # noqa: E402
from tessera import graph, op  # noqa: E402

ROUNDS: Final = 5
CALLS: Final = 5
PAUSE: Final = 0.1  # seconds
LENGTH, MODEL, HEADS, INNER = 512, 512, 8, 1376
Model = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A model: what it is in operators and in torch, and its arguments.  by: the argument of its gradient, or None."""

    name: str
    ours: Model
    theirs: Model
    arguments: tuple[Any, ...]
    by: int | None = None


def our_block(x: Any, p: Any) -> Any:
    """A block of Llama's kind."""
    q, k, v = op.split_qkv(op.gemm(op.rmsnorm(x, p["gain1"]), p["qkv"]), heads=HEADS)
    x = x + op.gemm(op.join_heads(op.flash_attention(q, k, v, causal=True)), p["out"])
    y = op.rmsnorm(x, p["gain2"])
    return x + op.gemm(op.silu(op.gemm(y, p["gate"])) * op.gemm(y, p["up"]), p["down"])


def their_block(x: Any, p: Any) -> Any:
    """The same block in torch."""
    batch = x.shape[0]
    qkv = functional.rms_norm(x, (MODEL,), p["gain1"], 1e-6) @ p["qkv"]
    q, k, v = qkv.view(batch, LENGTH, 3, HEADS, MODEL // HEADS).permute(2, 0, 3, 1, 4)
    made = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + made.transpose(1, 2).reshape(batch, LENGTH, MODEL) @ p["out"]
    y = functional.rms_norm(x, (MODEL,), p["gain2"], 1e-6)
    return x + (functional.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


def rows() -> Iterator[Row]:
    """Yield the models."""
    weights = {
        "gain1": torch.randn(MODEL), "qkv": torch.randn(MODEL, 3 * MODEL) * MODEL**-0.5,
        "out": torch.randn(MODEL, MODEL) * MODEL**-0.5, "gain2": torch.randn(MODEL),
        "gate": torch.randn(MODEL, INNER) * MODEL**-0.5, "up": torch.randn(MODEL, INNER) * MODEL**-0.5,
        "down": torch.randn(INNER, MODEL) * INNER**-0.5,
    }  # fmt: skip
    x, target = torch.randn(2, LENGTH, MODEL), torch.randn(2, LENGTH, MODEL)
    yield Row("block", our_block, their_block, (x, weights))
    yield Row("block, backward too", lambda p, x, y: op.sum(our_block(x, p) * y),
              lambda p, x, y: (their_block(x, p) * y).sum(), (weights, x, target), 0)  # fmt: skip
    heads = tuple(torch.randn(2, HEADS, 1024, 64) for _ in range(3))
    yield Row("attention causal", lambda q, k, v: op.flash_attention(q, k, v, causal=True),
              lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), heads)  # fmt: skip
    flat = x.reshape(-1, MODEL)
    yield Row("mlp gelu", lambda x, a, b: op.gemm(op.gelu(op.gemm(x, a)), b),
              lambda x, a, b: functional.gelu(x @ a) @ b, (flat, weights["gate"], weights["down"]))  # fmt: skip
    words, ids = torch.randn(8192, MODEL) * MODEL**-0.5, torch.randint(0, 8192, (1024,))
    yield Row("linear cross entropy, backward too", lambda w, x, t: op.cross_entropy(op.gemm(x, w.T), t),
              lambda w, x, t: functional.cross_entropy(x @ w.T, t), (words, flat, ids), 0)  # fmt: skip
    wide = torch.randn(4096, 4096)
    yield Row("softmax", op.softmax, lambda x: torch.softmax(x, -1), (wide,))
    yield Row("layernorm", op.layernorm, lambda x: functional.layer_norm(x, (4096,)), (wide,))


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of nested dicts and tuples."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else None
    return [tree] if children is None else [leaf for child in children for leaf in leaves(child)]


def widened(tree: Any) -> Any:
    """Return the floats of nested arguments in f64."""
    if isinstance(tree, dict):
        return {name: widened(child) for name, child in tree.items()}
    if isinstance(tree, tuple):
        return tuple(widened(child) for child in tree)
    return tree.double() if tree.is_floating_point() else tree


def gradient(model: Model, by: int, arguments: tuple[Any, ...]) -> list[Any]:
    """Return torch's gradients by one argument."""
    given = list(arguments)
    chosen = {name: p.detach().requires_grad_() for name, p in given[by].items()} if isinstance(given[by], dict) else (
        given[by].detach().requires_grad_()
    )  # fmt: skip
    given[by] = chosen
    return list(torch.autograd.grad(model(*given), leaves(chosen)))


def measured(row: Row, compiled: bool) -> dict[str, Any]:
    """Check and time one row."""
    mine = graph.module(row.name)(row.ours) if row.by is None else tessera.grad(row.ours, argnums=row.by)

    def peer(model: Model) -> Callable[[tuple[Any, ...]], list[Any]]:
        by = row.by
        if by is None:
            return lambda arguments: [model(*arguments)]
        return lambda arguments: gradient(model, by, arguments)

    contenders = {"tessera": lambda given: leaves(mine(*given)), "eager": peer(row.theirs)}
    if compiled:
        contenders["compile"] = peer(torch.compile(row.theirs))
    want = torch.cat([part.reshape(-1) for part in peer(row.theirs)(widened(row.arguments))])
    errors: dict[str, float] = {}
    for name, run in contenders.items():
        made = torch.cat([part.double().reshape(-1) for part in run(row.arguments)])
        errors[name] = float((made - want).norm() / want.norm())
        assert errors[name] < 1e-4, f"{name} of {row.name} is off by {errors[name]:.1e}"
        run(row.arguments)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            time.sleep(PAUSE)
            run(row.arguments)
            for _ in range(CALLS):
                start = time.perf_counter()
                run(row.arguments)
                samples[name].append((time.perf_counter() - start) * 1e3)
    times = {name: statistics.median(values) for name, values in samples.items()}
    best = min(value for name, value in times.items() if name != "tessera")
    return {"name": row.name, "ms": times, "errors": errors, "ratio": best / times["tessera"]}


def main() -> None:
    """Measure everything that was asked for, print a table, keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="", help="parts of names, separated by commas")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    found: list[dict[str, Any]] = []
    for row in rows():
        if given.rows and not any(word in row.name for word in given.rows.split(",")):
            continue
        found.append(measured(row, not given.no_compile))
        times = ", ".join(f"{name} {value:.2f}" for name, value in found[-1]["ms"].items())
        print(f"{row.name:36} {found[-1]['ratio']:5.2f}x  [{times} ms]", flush=True)
    if given.out is not None:
        facts = {"date": datetime.now(UTC).date().isoformat(), "machine": platform.processor() or platform.machine(),
                 "threads": torch.get_num_threads(), "torch": torch.__version__}  # fmt: skip
        given.out.write_text(json.dumps({"facts": facts, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
