"""Run every kernel of the library and of the documents once under NVIDIA's compute-sanitizer.

    python3 tests/agreement/sanitize.py [--tool memcheck] [--only NAME] [--target cuda]

Needs a GPU and `compute-sanitizer`.  Each tool (memcheck, racecheck, synccheck) watches one process that runs all the
calls of `support.library` and `support.document_calls` and checks their answers; the exit status is 1 when a tool found
something or an answer was wrong.  Kernels are compiled beforehand, so that the tools watch launches and nothing else.
"""

# ruff: noqa: T201 - a script says what it finds
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import document_calls, library  # noqa: E402
from tessera.core.errors.catalog import ContextLost  # noqa: E402
from tessera.core.settings import overridden  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck")
_FOUND = 9  # the exit status by which compute-sanitizer says that it found something


def run_all(target: str, only: str) -> int:
    """Run and check every call whose name holds `only`; give how many went wrong."""
    right, wrong = 0, 0
    calls = [call for call in (*library.CALLS, *document_calls.CALLS) if only in call.name]
    with overridden(target=target):
        for call in calls:
            arrays = call.arguments()
            try:
                library.judge(call, call.results(*arrays), call.expected(*call.arguments()))
                right += 1
            except Exception as error:  # noqa: BLE001 - one failing kernel must not hide the others
                wrong += 1
                print(f"WRONG {call.name}: {type(error).__name__}: {error}", flush=True)
                if isinstance(error, ContextLost):
                    print(
                        "the process's CUDA context is lost: what follows is not run (--only NAME runs it)", flush=True
                    )
                    break
    print(f"{right} of {len(calls)} calls right", flush=True)
    return wrong


def watched(tool: str, target: str, only: str) -> bool:
    """Whether `tool` found nothing in a process that runs every call."""
    command = ["compute-sanitizer", "--tool", tool, f"--error-exitcode={_FOUND}", "--print-limit=20", sys.executable,
               __file__, "--run", "--target", target, "--only", only]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    clean = done.returncode == 0
    print(f"{tool}: {'clean' if clean else f'exit status {done.returncode}'}", flush=True)
    if not clean:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", flush=True)
    return clean


def main() -> int:
    """Run the tools that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tool", choices=TOOLS, action="append", help="run this tool (may be given again)")
    parser.add_argument("--only", default="", help="only calls whose name holds this")
    parser.add_argument("--target", default="cuda", help="what to compile for: cuda or cuda_tile")
    parser.add_argument("--run", action="store_true", help="run the calls in this process, unwatched")
    options = parser.parse_args()
    if options.run:
        return int(run_all(options.target, options.only) > 0)
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not on PATH: it comes with the CUDA toolkit")
        return 1
    wrong = run_all(options.target, options.only)
    clean = [watched(tool, options.target, options.only) for tool in options.tool or TOOLS]
    return int(wrong > 0 or not all(clean))


if __name__ == "__main__":
    sys.exit(main())
