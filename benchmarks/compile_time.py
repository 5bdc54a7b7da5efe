"""Compile time over the length of a kernel: `python benchmarks/compile_time.py [--longest N] [--out FILE]`.

Each program is one long expression or as many statements, on a tile or on each lane's element, for every target.  The
last column is the slope between the two longest in a log-log plot: 1 is linear, 2 quadratic.  The first compilation
of each target, which starts its tools, is not counted.  `interpret` compiles nothing: the frontend and a run on one
tile are timed there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import tessera
from tessera.core.settings import overridden

RESULTS = Path(__file__).with_name("results")
TARGETS = ("interpret", "cpu", "cuda:sm_90a", "cuda_tile:sm_90")
LENGTHS = (125, 250, 500, 1000, 2000)
_SIDE = 64


def source(form: str, kind: str, operations: int) -> str:
    """A kernel of so many operations: `form` is expression or statements, `kind` tiles or lanes."""
    place = f"t:t+{_SIDE}" if kind == "tiles" else "i"
    if kind == "tiles":
        head = [f"    for t in tile.range(n, step={_SIDE}):"]
    else:
        head = ["    i = tile.linear_id()", "    if i < n:"]
    if form == "expression":
        body = [f"y[{place}] = x[{place}]" + " + 1.0" * operations]
    else:
        body = [f"a = x[{place}]", *["a = a + 1.0"] * operations, f"y[{place}] = a"]
    lines = ["@kernel", "def k(x: f32[n], y: mut f32[n]):", *head, *("        " + line for line in body)]
    return "\n".join(lines) + "\n"


def seconds(target: str, form: str, kind: str, operations: int) -> float:
    """From text to what can be launched, nothing cached."""
    x = np.ones(_SIDE, np.float32)
    text = source(form, kind, operations)
    start = time.perf_counter()
    kernel = tessera.compile_source(text).k
    if target == "interpret":
        with overridden(target=target):
            kernel(x, np.zeros_like(x))
    else:
        kernel.compile(x, x, target=target)
    return time.perf_counter() - start


def rows(longest: int) -> Iterator[dict[str, object]]:
    """Every row of the table, printed as it comes."""
    lengths = [length for length in LENGTHS if length <= longest]
    print(f"{'target':18}{'kind':8}{'form':12}" + "".join(f"{length:>9}" for length in lengths) + "    slope")
    for target in TARGETS:
        for kind in ("tiles", "lanes") if "tile" not in target else ("tiles",):
            for form in ("expression", "statements"):
                seconds(target, form, kind, 3)
                times = [seconds(target, form, kind, length) for length in lengths]
                slope = math.log(times[-1] / times[-2]) / math.log(lengths[-1] / lengths[-2])
                print(
                    f"{target:18}{kind:8}{form:12}" + "".join(f"{t:8.2f}s" for t in times) + f"{slope:9.2f}", flush=True
                )
                yield {"target": target, "kind": kind, "form": form, "seconds": dict(zip(lengths, times, strict=True)),
                       "slope": slope}  # fmt: skip


def main() -> None:
    """Run the sweep and keep what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    parser.add_argument("--out", type=Path, default=RESULTS / "compile_time.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        tessera.configure(cache_dir=Path(cache))
        found = list(rows(options.longest))
    report = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processors": os.cpu_count(), "rows": found}
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
