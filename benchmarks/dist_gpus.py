"""Collectives of the GPUs of one host: `python benchmarks/dist_gpus.py [file]`; figures as JSON, in the file if named.

all_reduce: Tessera's `det="leaf"`, the same bits for any number of GPUs, beside NCCL's own of the same arrays, in turns
all_gather, reduce_scatter: the same; of `size` bytes in all
symmetric: torch's one-shot and two-shot all-reduce over symmetric memory (bf16), a process a GPU, up to 4 MiB

Microseconds a call, the median of rounds of calls one after the other; all GPUs have finished at the end of a round.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tessera.core.base import dtypes
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.ops.collectives import fold_by_kernel
from tessera.runtime.dist import gpus
from tessera.runtime.dist.collectives import Group, all_gather, all_reduce, reduce_scatter
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.driver import devices
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.owned import DeviceArray, to_device

SIZES = (8 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30)
ROUNDS = 5
SYMMETRIC = """
import os, statistics, sys, time
import torch, torch.distributed as dist
import torch.distributed._symmetric_memory as symm
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
group = dist.group.WORLD.group_name
for size in map(int, sys.argv[1].split(",")):
    x = symm.empty(size // 2, dtype=torch.bfloat16, device="cuda").normal_()
    symm.rendezvous(x, group)
    row = [size]
    for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
        call = getattr(torch.ops.symm_mem, name)
        def many(call=call):
            for _ in range(20):
                call(x, "sum", group)
        try:
            many()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                many()
            found = []
            for _ in range(9):
                dist.barrier()
                torch.cuda.synchronize()
                start = time.perf_counter()
                graph.replay()
                torch.cuda.synchronize()
                found.append((time.perf_counter() - start) / 20 * 1e6)
            row.append(round(statistics.median(found), 2))
        except Exception as error:
            row.append(repr(error)[:80])
    if rank == 0:
        print(*row, sep="|", flush=True)
dist.destroy_process_group()
"""


def microseconds(engine: GpuEngine, run: Callable[[], object], calls: int) -> float:
    """Wall time of one of several calls, with the GPUs idle before and after."""
    engine.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait_all(engine)
    return (time.perf_counter() - start) / calls * 1e6


def wait_all(engine: GpuEngine) -> None:
    """Wait for every stream of every GPU."""
    api = door.driver()
    for device in engine.devices:
        with api.inside(device):
            api.wait(0)


def in_turns(engine: GpuEngine, runs: dict[str, Callable[[], object]], size: int) -> dict[str, float]:
    """Medians of rounds in which each is called in turn."""
    calls = max(2, min(50, (256 << 20) // size))
    found: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in runs.items():  # warm
        microseconds(engine, run, 2)
        del name
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(microseconds(engine, run, calls))
    return {name: round(statistics.median(each), 2) for name, each in found.items()}


class Peer:
    """NCCL's own collectives of the same arrays, on the engine's streams."""

    def __init__(self, engine: GpuEngine) -> None:
        self.engine = engine
        self.library: Any = engine._library()  # pyright: ignore[reportPrivateUsage]

    def run(self, name: str, values: list[DeviceArray], outs: list[DeviceArray], *more: object) -> None:
        """Call one collective on every GPU."""
        with self.library.group():
            for rank, (value, out) in enumerate(zip(values, outs, strict=True)):
                stream = self.engine._transfers[rank].handle(rank)  # pyright: ignore[reportPrivateUsage]
                getattr(self.library.communicators[rank], name)(value, out, *more, stream=stream)


def figures(ranks: int) -> dict[str, Any]:
    """All figures for some GPUs."""
    engine = GpuEngine(range(ranks))
    engine.start()
    group = Group(engine, tuple(range(ranks)))
    what, tree = reduction("sum", dtypes.f32), ReductionTree.binary(ranks)
    peer = Peer(engine)
    total = peer.library.operator("sum", np.dtype(np.float32))
    found: dict[str, Any] = {}
    for size in SIZES:
        elements = size // 4
        rng = np.random.default_rng(size)
        sample = rng.standard_normal(min(elements, 1 << 20)).astype(np.float32)
        values = [to_device(np.resize(np.roll(sample, rank), elements), rank) for rank in range(ranks)]
        outs = [DeviceArray((elements,), values[0].dtype, rank) for rank in range(ranks)]
        parts = [engine.part(value, 0, elements // ranks) for value in values]
        slices = [engine.part(out, 0, elements // ranks) for out in outs]
        runs: dict[str, Callable[[], object]] = {
            "all_reduce": lambda: all_reduce(group, [[v] for v in values], what, tree, fold_by_kernel, outs),  # noqa: B023
            "all_gather": lambda: all_gather(group, parts, dtypes.f32),  # noqa: B023
            "reduce_scatter": lambda: reduce_scatter(
                group, [[v] for v in values], what, tree, None, fold_by_kernel  # noqa: B023
            ),
        }  # fmt: skip
        runs["nccl all_reduce"] = lambda: peer.run("allreduce", values, outs, total)  # noqa: B023
        runs["nccl all_gather"] = lambda: peer.run("allgather", parts, outs)  # noqa: B023
        runs["nccl reduce_scatter"] = lambda: peer.run("reduce_scatter", values, slices, total)  # noqa: B023
        found[str(size)] = in_turns(engine, runs, size)
        print(ranks, size, found[str(size)], flush=True)
    for limit in (0, 1 << 40):  # pure movement by NCCL, and by copies
        gpus.PEER_BYTES = limit
        for size in (1 << 20, 16 << 20, 256 << 20):
            elements = size // 4 // ranks
            parts = [to_device(np.ones(elements, np.float32), rank) for rank in range(ranks)]
            run = in_turns(engine, {"all_gather": lambda: all_gather(group, parts, dtypes.f32)}, size)  # noqa: B023
            found[f"{size} by {'copies' if limit else 'NCCL'}"] = run
            print(ranks, size, limit, run, flush=True)
    engine.stop()
    return found


def symmetric(ranks: int) -> dict[str, Any]:
    """Torch's all-reduce over symmetric memory, in processes of its own."""
    if importlib.util.find_spec("torch") is None:
        return {}
    script = Path(tempfile.mkdtemp()) / "symmetric.py"
    script.write_text(SYMMETRIC)
    small = ",".join(str(size) for size in SIZES if size <= 4 << 20)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", str(script), small]
    environment = {**os.environ, "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=150)
    print(done.stdout, done.stderr[-2000:] if done.returncode else "", flush=True)
    rows = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 2]
    return {size: {"one shot": one, "two shots": two} for size, one, two in rows}


def main() -> None:
    """Print the figures, and write them."""
    counts = [count for count in (2, 4) if count <= devices.count()]
    found = {str(ranks): figures(ranks) for ranks in counts}
    found["symmetric"] = {str(ranks): symmetric(ranks) for ranks in counts}
    text = json.dumps({"card": door.driver().name(0), "figures": found}, indent=2)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
