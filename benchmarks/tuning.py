"""What the tuner chooses beside an exhaustive search: `python benchmarks/tuning.py [--gpu] [--only NAME] [--rounds N]`.

Ten kernels.  Each is searched anew; then every configuration that compiles, those that the search left out included, is
timed in turns, and the search's choice is timed against the fastest of them and against the default, round by round.
`choice / best` is what the choice costs (1.00: nothing could be better), `default / choice` what the search gained.
The last line says how far measured times are from predictions, which views repeat beside every predicted time.
Give the configurations of a few microseconds little weight on a machine that does other things, too.
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np

import tessera
from tessera import autotune
from tessera.core.errors.base import TesseraError
from tessera.core.settings import overridden
from tessera.core.targets import find_kind
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import Space
from tessera.performance.device_model import last_cache_bytes
from tessera.profiling.argument_clones import CloneRing
from tessera.profiling.timing import Timer, timer_for
from tessera.tuning.results import PRUNED, SKIPPED, Config, Trial, config_key, show

SOURCE = """
@kernel
def gemm(A: {dtype}[m, k], B: {dtype}[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):
        tile.mma_sync(i, j, l)

@kernel
def softmax(x: f32[h, w], y: mut f32[h, w]):
    for r in tile.range(h):
        y[r, :] = tile.softmax(x[r, :])

@kernel
def layernorm(x: f32[h, w], y: mut f32[h, w]):
    for r in tile.range(h):
        row = x[r, :]
        mean = tile.sum(row) / w
        centred = row - mean
        y[r, :] = centred * tile.rsqrt(tile.sum(centred * centred) / w + 1e-5)

BT = 32

@kernel
def transpose(x: f32[h, w], y: mut f32[w, h]):
    for i in tile.range(h, step=BT):
        for j in tile.range(w, step=BT):
            y[j:j+BT, i:i+BT] = x[i:i+BT, j:j+BT].T

@kernel
def row_sums(x: f32[h, w], y: mut f32[h]):
    for r in tile.range(h):
        y[r] = tile.sum(x[r, :])

BLOCK = 256

@kernel
def stencil(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=BLOCK):
        y[t:t+BLOCK] = 0.25 * x[t-1:t+BLOCK-1] + 0.5 * x[t:t+BLOCK] + 0.25 * x[t+1:t+BLOCK+1]

@kernel
def elementwise(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=BLOCK):
        v = x[t:t+BLOCK]
        y[t:t+BLOCK] = v / (1.0 + tile.exp(-v))

BQ = 64
BS = 64

@kernel
def attention(Q: {dtype}[s, 64], K: {dtype}[s, 64], V: {dtype}[s, 64], O: mut f32[s, 64]):
    for q in tile.range(s, step=BQ):
        top = tile.full((BQ,), -1e30)
        total = tile.zeros((BQ,))
        out = tile.zeros((BQ, 64))
        for t in range(0, s, BS):
            scores = tile.dot(Q[q:q+BQ, :], K[t:t+BS, :].T) * 0.125
            above = tile.maximum(top, tile.max(scores, axis=1))
            scale = tile.exp(top - above)
            weights = tile.exp(scores - above[:, None])
            total = total * scale + tile.sum(weights, axis=1)
            out = out * scale[:, None] + tile.dot(tile.cast(weights, {dtype}), V[t:t+BS, :])
            top = above
        O[q:q+BQ, :] = out / total[:, None]
"""
NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments' shapes (the last one's is written), and the space to search."""

    name: str
    kernel: str
    shapes: Sequence[tuple[int, ...]]
    space: Space
    factors: int = 0  # how many of the arguments are factors of products


@dataclass
class Row:
    """What came out of one case."""

    name: str
    configurations: int
    pruned: int
    first: float
    seconds: float
    choice: Config
    best: Trial
    cost: float
    gain: float
    notes: list[str] = field(default_factory=list[str])
    errors: list[float] = field(default_factory=list[float])
    """The shortest time of each configuration by the time that the cost model predicts for it."""


def cases(gpu: bool) -> list[Case]:
    """The ten kernels, in sizes for a GPU or for a CPU."""
    rows = {"rows_per_group": [1, 2, 4, 8, 16]}
    if gpu:
        gemm = {"BM": [64, 128, 256], "BN": [64, 128, 256], "BK": [32, 64], "num_warps": [4, 8]}
        row_options, block = (
            {"num_warps": [1, 2, 4, 8], **rows},
            {"BLOCK": [256, 512, 1024, 2048, 4096], "num_warps": [2, 4, 8]},
        )
        queries, square, size, many = {"BQ": [64, 128], "BS": [32, 64, 128], "num_warps": [4, 8]}, 8192, 4096, 1 << 26
        odd, thin, line = (1000, 1100, 1200), (64, 4096, 4096), 8192
    else:
        gemm = {"BM": [16, 32, 64, 128], "BN": [32, 64, 128], "BK": [16, 32, 64]}
        row_options, block = rows, {"BLOCK": [64, 128, 256, 512, 1024, 4096]}
        queries, square, size, many = {"BQ": [16, 32, 64, 128], "BS": [32, 64, 128]}, 512, 1024, 1 << 22
        odd, thin, line = (100, 130, 70), (16, 1024, 1024), 512

    def product(name: str, m: int, n: int, k: int) -> Case:
        return Case(name, "gemm", ((m, k), (k, n), (m, n)), gemm, factors=2)

    return [
        product("gemm square", square, square, square),
        product("gemm odd", *odd),
        product("gemm thin", *thin),
        Case("softmax", "softmax", ((size, size), (size, size)), row_options),
        Case("layernorm", "layernorm", ((size, size), (size, size)), row_options),
        Case("transpose", "transpose", ((size, size), (size, size)), {"BT": [16, 32, 64, 128]}),
        Case("row sums", "row_sums", ((size, size), (size,)), row_options),
        Case("stencil", "stencil", ((many,), (many,)), block),
        Case("elementwise", "elementwise", ((many,), (many,)), block),
        Case("attention", "attention", ((line, 64),) * 4, queries, factors=3),
    ]


def arguments(case: Case, dtype: str, put: Callable[[np.ndarray], object]) -> tuple[object, ...]:
    """Random numbers, where `put` brings them."""
    generator = np.random.default_rng(0)
    return tuple(
        put(generator.standard_normal(shape).astype(NUMPY[dtype] if number < case.factors else np.float32))
        for number, shape in enumerate(case.shapes)
    )


class Bench:
    """Launches of a case, timed in turns on copies of its arguments."""

    def __init__(self, target: str, values: tuple[object, ...]) -> None:
        kind = find_kind(target)[0]
        self.timer: Timer = timer_for(kind, values)
        mutable = (*(False for _ in values[1:]), True)
        with self.timer.inside():
            cache = last_cache_bytes(kind, values)
            self.ring = CloneRing(values, mutable, on_device=kind.on_gpu, cache_bytes=cache)

    def rounds(self, kernels: Mapping[str, Kernel], count: int) -> dict[str, list[float]]:
        """Times of each kernel, in rounds of alternating order, the first of them not counted."""
        times: dict[str, list[float]] = {key: [] for key in kernels}
        with self.timer.inside():
            for number in range(count + 1):
                for key in list(kernels)[:: 1 if number % 2 else -1]:
                    taken = self.ring.take()
                    seconds = self.timer.time(lambda one=kernels[key], given=taken: one.launch(given.values))
                    taken.restore()
                    if number:
                        times[key].append(seconds)
        return times

    def close(self) -> None:
        """Give the memory back."""
        with self.timer.inside():
            self.ring.close()
        self.timer.close()


def exhaustive(kernel: Kernel, trials: Sequence[Trial], values: tuple[object, ...]) -> dict[str, Kernel]:
    """Every configuration that compiles, by its key; of those with the same code, the first."""
    found: dict[str, Kernel] = {}
    codes: set[str] = set()
    for trial in trials:
        variant = kernel.with_constants(trial.config)
        try:
            code = variant.compile_quietly(*values).code_identity
        except TesseraError:
            continue
        if code not in codes:
            codes.add(code)
            found[config_key(trial.config)] = variant
    return found


def measure(case: Case, kernel: Kernel, values: tuple[object, ...], rounds: int) -> Row:
    """Search, then look at everything."""
    begun = time.monotonic()
    first: list[float] = []
    found = autotune.search(
        kernel=kernel, params=case.space, args=values, again=True, budget=600.0,
        on_trial=lambda _: first.append(time.monotonic() - begun), progress=False,
    )  # fmt: skip
    seconds = time.monotonic() - begun
    kernels = exhaustive(kernel, found.trials, values)
    bench = Bench(kernel.target_for(values).name, values)
    try:
        # A launch that a configuration does not survive has no place among them.
        times = bench.rounds(kernels, rounds)
        ranked = sorted(kernels, key=lambda key: statistics.median(times[key]))
        choice = found.find(found.config)
        assert choice is not None
        chosen = config_key(choice.config)
        assert found.own is not None
        rivals = dict.fromkeys([chosen, config_key(found.own.config), *ranked[:3]])
        final = bench.rounds({key: kernels[key] for key in rivals}, 3 * rounds)
    finally:
        bench.close()
    best = min(final, key=lambda key: statistics.median(final[key]))

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(final[one], final[other], strict=True))

    by_key = {config_key(trial.config): trial for trial in found.trials}
    left = sum(trial.status in (PRUNED, SKIPPED) for trial in found.trials)
    errors = [min(times[key]) / predicted for key in times if (predicted := by_key[key].predicted)]
    return Row(
        case.name, len(found.trials), left, first[0], seconds, found.config, by_key[best], ratio(chosen, best),
        ratio(config_key(found.own.config), chosen), list(filter(None, [found.calibration.told, *found.notes])),
        errors,
    )  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpu", action="store_true", help="arrays of torch on a GPU, no target named")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    dtype, put = "f32", lambda array: array
    if given.gpu:
        import torch  # noqa: PLC0415 - only on a GPU

        dtype = "bf16"

        def put(array: np.ndarray) -> object:
            kind = torch.bfloat16 if array.dtype == ml_dtypes.bfloat16 else torch.float32
            return torch.from_numpy(array.astype(np.float32)).cuda().to(kind)

    print("kernel        configs  left out  first s  search s  choice/best  default/choice  choice")
    costs: list[float] = []
    errors: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder, overridden(cache_dir=Path(folder)):
        module = tessera.compile_source(SOURCE.replace("{dtype}", dtype))
        for case in cases(given.gpu):
            if given.only not in case.name:
                continue
            row = measure(case, getattr(module, case.kernel), arguments(case, dtype, put), given.rounds)
            costs.append(row.cost)
            errors.append(row.errors)
            print(
                f"{row.name:<12} {row.configurations:>8} {row.pruned:>9} {row.first:>8.2f} {row.seconds:>9.1f} "
                f"{row.cost:>12.3f} {row.gain:>15.3f}  {show(row.choice)}"
                + (f"; best: {show(row.best.config)} ({row.best.status})" if row.cost > 1.0 else ""), flush=True,
            )  # fmt: skip
            for note in row.notes:
                print(f"             {note}")
    print(f"worst choice/best: {max(costs):.3f}")
    medians = [statistics.median(each) for each in errors if each]
    low, *_, high = statistics.quantiles([ratio for each in errors for ratio in each], n=10)
    print(f"measured/predicted: kernels {min(medians):.2f} to {max(medians):.2f}, {statistics.median(medians):.2f} in "
          f"the median; eight of ten configurations {low:.2f} to {high:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
