"""The host's part of operator graphs: time to compile, time of a further equal layer, and time of a call.

    python benchmarks/graph_compile.py [--only cold,layers,equal,train,calls,orders] [--orders N] [--target T] [--out F]

cold: a transformer block from its capture to its kernels, nothing cached; train: the same for a step of training of
two layers; layers: what each further equal layer of one graph costs, pass by pass; equal: a block that is captured
anew, another function object of the same text, whose plan and kernels are there; calls: the host's time of a call over
its kernels, on arrays of PyTorch on a GPU where there is one; orders: plans and keys of programs under other orders of
rules and seeds of hashes, of which there must be one.  Prints JSON.
"""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

import tessera  # noqa: E402
from tessera import graph, op  # noqa: E402
from tessera.core.settings import current, overridden  # noqa: E402
from tessera.graphs.executable import Executable  # noqa: E402
from tessera.graphs.function import GraphFunction  # noqa: E402
from tessera.session.session import resolve_target, session  # noqa: E402

WIDTH: Final = 512
HIDDEN: Final = 1376
PARTS: Final = ("cold", "layers", "equal", "train", "calls", "orders")


def block(w: Any, x: Any) -> Any:
    """A block of a transformer: attention and a gated MLP, both behind a norm."""
    q, k, v = op.split_qkv(op.gemm(op.rmsnorm(x, w["g1"]), w["wqkv"]), heads=8)
    x = x + op.gemm(op.join_heads(op.flash_attention(q, k, v, causal=True)), w["wo"])
    y = op.rmsnorm(x, w["g2"])
    return x + op.gemm(op.silu(op.gemm(y, w["w1"])) * op.gemm(y, w["w3"]), w["w2"])


def weights(seed: int = 0, dtype: Any = np.float16) -> dict[str, Any]:
    """Random weights of one block."""
    rng, d, h = np.random.default_rng(seed), WIDTH, HIDDEN
    shapes = {"g1": (d,), "g2": (d,), "wqkv": (d, 3 * d), "wo": (d, d), "w1": (d, h), "w3": (d, h), "w2": (h, d)}
    return {name: (rng.standard_normal(shape) * 0.05).astype(dtype) for name, shape in shapes.items()}


def rows(dtype: Any = np.float16) -> Any:
    """Random input of a block."""
    return np.random.default_rng(9).standard_normal((2, 512, WIDTH)).astype(dtype)


def model(layers: list[Any], x: Any) -> Any:
    """Several blocks, one after the other."""
    for w in layers:
        x = block(w, x)
    return x


def seconds(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one run takes."""
    start = clock()
    run()
    return clock() - start


def cold(target: str) -> Mapping[str, object]:
    """A block from its capture to its kernels with nothing cached, and once more with all of it cached."""
    found: dict[str, object] = {"workers": current().workers}
    with tempfile.TemporaryDirectory() as folder, overridden(cache_dir=Path(folder)):
        session().close()
        made = graph.module("block", algebra="real")(block)
        w, x = weights(), rows()
        found["graph passes s"] = seconds(lambda: made.executable_for(w, x).plan)
        found["kernels s"] = seconds(lambda: made.kernels(target))
        found["whole s"] = found["graph passes s"] + found["kernels s"]  # type: ignore[operator]  # both are numbers
        again = graph.module("block_again", algebra="real")(block)
        found["kernels"] = len(made.kernels(target))
        found["cached s"] = seconds(lambda: (again.executable_for(w, x), again.kernels(target)))
    return found


def passes(made: GraphFunction[..., Any], target: str, *arguments: Any) -> dict[str, float]:
    """Milliseconds of this process in each pass over a graph; its kernels are compiled already."""
    found: dict[str, float] = {}
    executables: list[Executable] = []
    steps: dict[str, Callable[[], object]] = {
        "capture": lambda: executables.append(made.executable_for(*arguments)),
        "simplify": lambda: executables[0].simplified, "rewrite": lambda: executables[0].rewritten,
        "plan": lambda: executables[0].plan, "kernels": lambda: made.kernels(target),
    }  # fmt: skip
    for name, step in steps.items():
        found[name] = 1e3 * seconds(step, time.process_time)
    return found


def layers(target: str, few: int = 4, many: int = 12) -> Mapping[str, object]:
    """What one further equal layer costs: the difference of two models, a layer."""
    x = rows()
    stacks = {count: [weights(seed) for seed in range(count)] for count in (few, many)}
    for count in (2, few, many):  # what is compiled once is compiled
        made = graph.module("model", algebra="real")(model)
        made.executable_for([weights(seed) for seed in range(count)], x)
        made.kernels(target)
    best: dict[int, dict[str, float]] = {}
    for turn in range(3):
        for count, stack in stacks.items():
            # An equal graph would be found again; one of another name is not, and its kernels have the same code.
            spent = passes(graph.module(f"model{turn}", algebra="real")(model), target, stack, x)
            known = best.setdefault(count, spent)
            best[count] = {name: min(known[name], spent[name]) for name in spent}
    each = {f"{name} ms": (best[many][name] - best[few][name]) / (many - few) for name in best[many]}
    return {"layers": [few, many], **{f"{name}": round(value, 2) for name, value in each.items()},
            "a further layer ms": round(sum(each.values()), 2)}  # fmt: skip


def equal(target: str, count: int = 40) -> Mapping[str, object]:
    """Milliseconds of this process until an equal function has its plan and its kernels."""
    w, x = weights(), rows()
    times: list[float] = []
    for _ in range(count + 1):
        made = graph.module("block", algebra="real")(block)

        def ready(made: GraphFunction[..., Any] = made) -> None:
            made.executable_for(w, x).plan  # noqa: B018 - computed where it was not
            made.kernels(target)

        times.append(1e3 * seconds(ready, time.process_time))
    first, *others = times
    others.sort()
    return {"first ms": round(first, 2), "equal ms": round(others[count // 2], 2), "least ms": round(others[0], 2)}


def train_step(count: int = 2) -> tuple[GraphFunction[..., Any], tuple[Any, ...]]:
    """A step of Adam for a few layers, with its arguments."""

    def loss(w: Any, x: Any) -> Any:
        return op.mean(op.square(model(w, x)))

    def step(w: Any, first: Any, second: Any, t: Any, x: Any) -> Any:
        value, slopes = tessera.value_and_grad(loss)(w, x)
        moved = [
            {name: op.adam(a[name], g[name], m[name], v[name], t, lr=1e-3) for name in a}
            for a, g, m, v in zip(w, slopes, first, second, strict=True)
        ]
        return value, *([{name: each[part] for name, each in layer.items()} for layer in moved] for part in range(3))

    stack = [weights(seed, np.float32) for seed in range(count)]
    zeros = [{name: np.zeros_like(each) for name, each in layer.items()} for layer in stack]
    return graph.module("train_step")(step), (stack, zeros, zeros, np.array(1), rows(np.float32)[:, :128])


def train(target: str) -> Mapping[str, object]:
    """A step of training from its capture to its kernels, nothing cached."""
    made, arguments = train_step()
    with tempfile.TemporaryDirectory() as folder, overridden(cache_dir=Path(folder)):
        session().close()
        found: dict[str, object] = {"graph passes s": seconds(lambda: made.executable_for(*arguments).plan)}
        found["kernels s"] = seconds(lambda: made.kernels(target))
        found["kernels"] = len(made.kernels(target))
    return found


def calls(target: str) -> Mapping[str, object]:
    """The host's time of a call over its kernels, in microseconds: what a call takes until it returns."""
    found: dict[str, object] = {}
    for name, (made, arguments) in {"train step": train_step(), "block": _block()}.items():
        given, wait = _on_gpu(arguments)
        with overridden(target=target if wait is None else current().target):
            times = _timed(partial(made, *given), wait)
        kernels = sum(group.kind != "call" for group in made.executable.plan.groups)
        middle = 1e6 * sorted(times[10:])[10]
        found[name] = {"kernels": kernels, "first call s": round(times[0], 3), "second call us": round(1e6 * times[1]),
                       "call us": round(middle, 1), "us a kernel": round(middle / kernels, 2)}  # fmt: skip
    return found


def _timed(call: Callable[[], object], wait: Callable[[], object] | None) -> list[float]:
    times = [seconds(call) for _ in range(2)]
    for _ in range(30):
        if wait is not None:
            wait()  # else the driver's queue fills, and a launch waits for the GPU
        times.append(seconds(call))
    return times


def _block() -> tuple[GraphFunction[..., Any], tuple[Any, ...]]:
    return graph.module("block")(block), (weights(), rows())


def _on_gpu(arguments: Any) -> tuple[Any, Callable[[], object] | None]:
    """Return arguments as tensors on a GPU, and what waits for it; NumPy's, where there is no GPU."""
    try:
        import torch  # noqa: PLC0415 - optional
    except ImportError:
        return arguments, None
    if not torch.cuda.is_available():
        return arguments, None

    def moved(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.as_tensor(value, device="cuda")
        if isinstance(value, dict):
            return {name: moved(each) for name, each in value.items()}
        return type(value)(moved(each) for each in value)

    return moved(arguments), torch.cuda.synchronize


def digest() -> str:
    """Hash the plans and programs of a step of training, and of a block with all permissions: their algebraic form."""
    from tessera.lowering.artifact_cache.key import code_key  # noqa: PLC0415 - for this part alone

    target = resolve_target("cuda:sm_90a")
    texts: list[str] = []
    for made, arguments in (train_step(1), (graph.module("block", algebra="real")(block), (weights(), rows()))):
        kernels = made.executable_for(*arguments).kernels(resolve_target("interpret"))
        texts += [made.inspect_ir("rewritten"), made.inspect_ir("schedule")]
        texts += [code_key(kernel.lowered.program, target) for kernel in kernels]
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def orders(count: int) -> Mapping[str, object]:
    """Hash the plan in processes with other seeds of hashes and other orders of the rules."""
    found: dict[str, int] = {}
    tried: set[str] = set()
    for seed in range(count):
        code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'benchmarks')!r}]; import graph_compile as g; print(g.shuffled({seed}), g.digest())"  # noqa: E501
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        order, plan = done.stdout.split()
        tried.add(order)
        found[plan] = found.get(plan, 0) + 1
    return {"runs": count, "orders of rules": len(tried), "plans": len(found), "hashes": found}


def shuffled(seed: int) -> str:
    """Put the rules of rewriting into another order, and return a hash of it."""
    from tessera.lowering.graph.rules import table  # noqa: PLC0415 - for this part alone

    rules = list(table.RULES)
    np.random.default_rng(seed).shuffle(rules)  # type: ignore[arg-type]  # it shuffles lists of anything
    table.RULES = tuple(rules)  # type: ignore[misc]  # another order is what is tested
    return hashlib.blake2b(" ".join(rule.name for rule in rules).encode(), digest_size=8).hexdigest()


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--orders", type=int, default=100)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made: dict[str, object] = {
        "when": datetime.now(UTC).isoformat(), "python": sys.version.split()[0], "numpy": np.__version__,
        "tessera": tessera.__version__, "cores": os.cpu_count(), "target": options.target,
    }  # fmt: skip
    parts: dict[str, Callable[[], Mapping[str, object]]] = {
        "cold": lambda: cold(options.target), "layers": lambda: layers(options.target),
        "equal": lambda: equal(options.target), "train": lambda: train(options.target),
        "calls": lambda: calls("cpu"), "orders": lambda: orders(options.orders),
    }  # fmt: skip
    for name in options.only.split(","):
        made[name] = parts[name]()
        print(json.dumps({name: made[name]}), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
