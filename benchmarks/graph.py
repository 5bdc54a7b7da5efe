"""Speed of operator graphs on one GPU beside torch (eager, torch.compile, cuDNN, FlexAttention), in one run, in turns.

    python3 benchmarks/graph.py [--only attention,mlp] [--no-compile] [--out FILE]

Each row first checks every contender's result against f64 on random inputs, then times all in turns: ten calls between
two events, captured as a CUDA graph where the contender can be, the median of nine rounds.  Ratios are the time of the
best peer over ours.  Tessera runs what a user would write: operators in a function, nothing chosen by hand.
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUntypedFunctionDecorator=false
# ruff: noqa: E731, PLW0108, E501, ARG005

import argparse
import json
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402

from tessera import graph, op  # noqa: E402

CALLS = 10
ROUNDS = 9
BF16 = torch.bfloat16


@dataclass
class Row:
    """One row: what each contender took (microseconds), its error, and what went wrong with it."""

    name: str
    work: float
    unit: str
    times: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    first_call: dict[str, float] = field(default_factory=dict[str, float])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    kernels: int = 0


@dataclass(frozen=True)
class Case:
    """One computation.  contenders: functions of no arguments; reference: the result in f64, or a part of it."""

    name: str
    work: float
    unit: str
    contenders: dict[str, Callable[[], Any]]
    reference: Callable[[], Any]
    part: Callable[[Any], Any] = lambda x: x
    ours: Any = None


def normal(*shape: int, scale: float = 1.0) -> Any:
    """Random bf16 numbers."""
    return (torch.randn(*shape, device="cuda") * scale).to(BF16)


def attention_cases() -> Iterator[Case]:
    """Attention of b 4, h 16, s 4096, d 128, written as an operator; and as softmax(Q K^T) V in three lines."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415 - a part of torch that is slow to load
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: PLC0415

    b, h, s, d = 4, 16, 4096, 128
    q, k, v = (normal(b, h, s, d) for _ in range(3))
    i, j = torch.arange(s, device="cuda")[:, None], torch.arange(s, device="cuda")[None, :]
    slopes = torch.exp2(-torch.arange(1, h + 1, device="cuda") / 2)
    flex = torch.compile(flex_attention)

    def exact(score: Callable[[Any], Any], mask: Any = None) -> Callable[[], Any]:
        def reference() -> Any:
            scores = score(q[0, 0].double() @ k[0, 0].double().T / math.sqrt(d))
            scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
            return torch.softmax(scores, -1) @ v[0, 0].double()

        return reference

    def cudnn(causal: bool) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    causal_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, s, s)
    window_mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 512), None, None, s, s)
    flops = 4.0 * b * h * s * s * d

    def case(name: str, share: float, ours: Callable[..., Any], peers: dict[str, Any], reference: Any) -> Case:
        mine = graph.module(name)(ours)
        return Case(name, flops * share, "TFLOP/s", {"tessera": lambda: mine(q, k, v), **peers}, reference,
                    lambda x: x[0, 0], mine)  # fmt: skip

    def naive(Q: Any, K: Any, V: Any) -> Any:
        return op.matmul(op.softmax(op.matmul(Q, K.T) * (1 / math.sqrt(d))), V)

    def alibi(Q: Any, K: Any, V: Any) -> Any:
        distance = (op.arange(s)[None, :] - op.arange(s)[:, None]).astype("f32")
        slope = op.exp2((op.arange(h) + 1).astype("f32") * -0.5)
        return op.flash_attention(Q, K, V, causal=True, bias=slope[:, None, None] * distance)

    softcap = lambda score, *_: 20.0 * torch.tanh(score / 20.0)
    yield case("attention full", 1.0, lambda Q, K, V: op.flash_attention(Q, K, V), {"cudnn": cudnn(causal=False)},
               exact(lambda x: x))  # fmt: skip
    yield case("attention softmax(QK^T)V", 1.0, naive, {"cudnn": cudnn(causal=False)}, exact(lambda x: x))
    yield case("attention causal", 0.5, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True), {
        "cudnn": cudnn(causal=True), "flex": lambda: flex(q, k, v, block_mask=causal_mask)}, exact(lambda x: x, j <= i))  # fmt: skip
    yield case("attention causal softcap", 0.5, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True, softcap=20.0), {
        "flex": lambda: flex(q, k, v, score_mod=softcap, block_mask=causal_mask)},
        exact(lambda x: 20 * torch.tanh(x / 20), j <= i))  # fmt: skip
    yield case("attention causal ALiBi", 0.5, alibi, {
        "flex": lambda: flex(q, k, v, score_mod=lambda x, b, h, i, j: x + slopes[h] * (j - i), block_mask=causal_mask)},
        exact(lambda x: x + slopes[0].double() * (j - i), j <= i))  # fmt: skip
    yield case("attention window 512", 0.118, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True, window=512), {
        "flex": lambda: flex(q, k, v, block_mask=window_mask)}, exact(lambda x: x, (j <= i) & (i - j < 512)))  # fmt: skip


def layer_cases(compiled: bool) -> Iterator[Case]:
    """Products with what follows them, and rows."""
    m, n, k = 4096, 16384, 4096
    x, w1, w2 = normal(m, k), normal(k, n, scale=k**-0.5), normal(n, k, scale=n**-0.5)
    wide, gain = normal(8192, 4096), normal(4096)
    functional = torch.nn.functional

    def peers(run: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
        return {"eager": run, **({"compile": torch.compile(run)} if compiled else {})}

    mlp = graph.module("mlp")(lambda x, a, b: op.gemm(op.gelu(op.gemm(x, a)), b))
    yield Case("mlp gelu 4096x4096x16384", 4.0 * m * n * k, "TFLOP/s",
               {"tessera": lambda: mlp(x, w1, w2), **peers(lambda: functional.gelu(x @ w1) @ w2)},
               lambda: functional.gelu(x[:64].double() @ w1.double()) @ w2.double(), lambda y: y[:64], mlp)  # fmt: skip
    up = graph.module("swiglu")(lambda x, a, b: op.silu(op.gemm(x, a)) * op.gemm(x, b))
    half, other = normal(k, 11008, scale=k**-0.5), normal(k, 11008, scale=k**-0.5)
    yield Case("swiglu 4096x4096x11008", 4.0 * m * k * 11008, "TFLOP/s",
               {"tessera": lambda: up(x, half, other), **peers(lambda: functional.silu(x @ half) * (x @ other))},
               lambda: functional.silu(x[:64].double() @ half.double()) * (x[:64].double() @ other.double()),
               lambda y: y[:64], up)  # fmt: skip
    size = 2.0 * wide.numel() * 2
    for name, mine, theirs in (
        ("softmax", lambda x: op.softmax(x), lambda x: torch.softmax(x, -1)),
        ("rmsnorm", lambda x: op.rmsnorm(x, gain), lambda x: functional.rms_norm(x, (4096,), gain, 1e-6)),
        ("layernorm", lambda x: op.layernorm(x, gain, gain), lambda x: functional.layer_norm(x, (4096,), gain, gain)),
        ("relu(x + gain)", lambda x: op.relu(x + gain), lambda x: torch.relu(x + gain)),
    ):
        ours = graph.module(name)(mine)
        exact = {"rmsnorm": lambda x: functional.rms_norm(x.double(), (4096,), gain.double(), 1e-6),
                 "layernorm": lambda x: functional.layer_norm(x.double(), (4096,), gain.double(), gain.double()),
                 "softmax": lambda x: torch.softmax(x.double(), -1),
                 "relu(x + gain)": lambda x: torch.relu(x.double() + gain.double())}[name]  # fmt: skip
        yield Case(f"{name} 8192x4096", size, "GB/s",
                   {"tessera": lambda f=ours: f(wide), **peers(lambda f=theirs: f(wide))},
                   lambda f=exact: f(wide), lambda y: y, ours)  # fmt: skip


def measured(case: Case) -> Row:
    """Check and time one case."""
    row = Row(case.name, case.work, case.unit)
    want = case.reference()
    ready: dict[str, Callable[[], Any]] = {}
    for name, run in case.contenders.items():
        try:
            start = time.perf_counter()
            got = case.part(run()).double()
            torch.cuda.synchronize()
            row.first_call[name] = time.perf_counter() - start
            row.errors[name] = float((got - want).norm() / want.norm())
            if not row.errors[name] < 2e-2:
                raise ValueError(f"its result is off by {row.errors[name]:.1e}")
            ready[name] = captured(run, row, name)
        except Exception as error:  # noqa: BLE001 - a contender that fails is a line of the report
            row.notes[name] = f"{type(error).__name__}: {error}"[:200]
            traceback.print_exc()
    if case.ours is not None:
        row.kernels = len(case.ours.executable.plan.groups)
    samples: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(ROUNDS):
        for name, run in ready.items():
            samples[name].append(timed(run))
    row.times = {name: statistics.median(values) for name, values in samples.items()}
    return row


def captured(run: Callable[[], Any], row: Row, name: str) -> Callable[[], Any]:
    """Return the replay of CALLS calls as one CUDA graph, or the calls themselves where they cannot be captured."""
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    try:
        made = torch.cuda.CUDAGraph()
        with torch.cuda.graph(made):
            for _ in range(CALLS):
                run()
        made.replay()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001
        row.notes[name] = f"not captured: {error}"[:120]
        torch.cuda.synchronize()

        def repeated() -> None:
            for _ in range(CALLS):
                run()

        return repeated
    return made.replay


def timed(run: Callable[[], Any]) -> float:
    """Return microseconds a call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def line(row: Row) -> str:
    """Return a row of the table."""
    ours = row.times.get("tessera")
    peers = {name: value for name, value in row.times.items() if name != "tessera"}
    best = min(peers.values(), default=math.nan)
    scale = 1e6 if row.unit == "TFLOP/s" else 1e3
    rate = row.work / ours / scale if ours else math.nan
    ratio = best / ours if ours else math.nan
    rest = ", ".join(f"{name} {value:.0f} us" for name, value in peers.items())
    mine = f"{ours:8.0f} us {rate:7.0f} {row.unit}" if ours else "failed"
    return f"{row.name:28} {mine} {ratio:5.2f}x  kernels {row.kernels}  ({rest}) {row.errors} {row.notes or ''}"


def main() -> None:
    """Measure everything that was asked for, print a table, keep the samples."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="attention,layers")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    rows: list[Row] = []
    for section in given.only.split(","):
        cases = attention_cases() if section == "attention" else layer_cases(not given.no_compile)
        for case in cases:
            rows.append(measured(case))
            print(line(rows[-1]), flush=True)
    if given.out is not None:
        facts = {"date": datetime.now(UTC).date().isoformat(), "card": torch.cuda.get_device_name(),
                 "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}  # fmt: skip
        given.out.write_text(json.dumps({"facts": facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
