"""Speed of operator graphs on one GPU beside torch (eager, torch.compile, cuDNN, FlexAttention) and JAX, in one run.

    python3 benchmarks/graph.py [--only attention,training] [--rows causal,mlp] [--no-compile] [--kernels] [--out FILE]

Each row first checks every contender's result against f64 on random inputs, then times all in turns: ten calls between
two events, captured as a CUDA graph where the contender can be and a call is short, the median of nine rounds.  Ratios
are the time of the best peer over ours.  Tessera runs what a user would write: operators in a function, nothing chosen
by hand.  --kernels prints how long each kernel of ours and of the best peer took, in the order they ran.
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most of the card's memory otherwise

import torch  # noqa: E402

from graph_attention import attention_cases  # noqa: E402
from graph_layers import layer_cases  # noqa: E402
from graph_library import library_cases  # noqa: E402
from graph_measure import Case, Row, kernel_times, line, measured  # noqa: E402
from graph_training import training_cases  # noqa: E402

Lazy = tuple[str, Callable[[], Case]]
SECTIONS: Final[dict[str, Callable[[bool], Iterator[Lazy]]]] = {
    "attention": attention_cases, "layers": layer_cases, "training": training_cases, "library": library_cases,
}  # fmt: skip


def main() -> None:
    """Measure everything that was asked for, print a table, keep the samples."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--rows", default="", help="parts of names, separated by commas: only these rows")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile and JAX out")
    parser.add_argument("--kernels", action="store_true", help="print the time of each kernel as well")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    rows: list[Row] = []
    for section in given.only.split(","):
        for name, make in SECTIONS[section](not given.no_compile):
            if given.rows and not any(word in name for word in given.rows.split(",")):
                continue
            try:
                case = make()
                rows.append(measured(case))
                print(line(rows[-1]), flush=True)
                if given.kernels:
                    _print_kernels(case, rows[-1])
                del case
            except Exception:  # noqa: BLE001 - a row that cannot be made does not end the others
                print(f"{name}: {traceback.format_exc()}", flush=True)
            torch.cuda.empty_cache()
            _keep(rows, given.out)


def _print_kernels(case: Case, row: Row) -> None:
    """Print the time of each kernel of ours, and of the best peer's."""
    peers = [name for name in row.times if name not in ("tessera", *case.apart)]
    best = min(peers, key=row.times.__getitem__, default=None)
    for name in ("tessera", best):
        if name is None or name not in row.times:
            continue
        times = kernel_times(case.contenders[name])
        print(f"    {name}: {sum(each for _, each in times):.0f} us")
        for kernel, each in times:
            print(f"    {each:9.1f} us  {kernel[:100]}", flush=True)


def _keep(rows: list[Row], path: Path | None) -> None:
    """Write what is measured so far: a run that is ended keeps it."""
    if path is None:
        return
    facts = {
        "date": datetime.now(UTC).date().isoformat(), "card": torch.cuda.get_device_name(),
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda,
    }  # fmt: skip
    path.write_text(json.dumps({"facts": facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
