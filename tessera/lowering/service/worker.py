"""The worker process: everything from Tile IR to machine code happens here, because LLVM and MLIR may abort.

`python -m tessera.lowering.service.worker --connect FD` serves requests until the pipe closes;
`python -m tessera.lowering.service.worker --replay FILE` repeats the compilation that a crash report holds.
"""

import argparse
import faulthandler
import gc
import os
import pickle
import re
import resource
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from tessera.core.errors.base import TesseraError
from tessera.core.events import Event, Subscriber, subscribe
from tessera.core.private_files import Untrusted, read_private
from tessera.core.targets import TARGETS
from tessera.lowering.service.protocol import TAKEN, Abort, Compile, Reply, Request, Sleep, Warm

_STATUS: Final = Path("/proc/self/status")
_SWITCH: Final = 1e-4  # seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, or 1 when a replayed compilation fails."""
    parser = argparse.ArgumentParser(prog="python -m tessera.lowering.service.worker", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--connect", type=int, metavar="FD", help="serve requests from this file descriptor")
    what.add_argument("--replay", type=Path, metavar="FILE", help="compile the kernel of a crash report again")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="a request's longest time")
    options = parser.parse_args(arguments)
    # A Python traceback on stderr when MLIR or LLVM takes the process down: it goes into the crash report.
    faulthandler.enable()
    return _replay(options.replay) if options.replay else serve(Connection(options.connect), options.limit)


def serve(connection: Connection, limit: float) -> int:
    """Answer requests until the other end closes, which it does when the notebook's process ends.

    The service ends a worker that takes too long; `limit` (seconds) is for one whose notebook is gone.
    """
    # The thread that drives LLVM goes on at once, whenever a call returns, and not in 5 ms.
    sys.setswitchinterval(_SWITCH)
    while True:
        try:
            request: Request = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own service
            connection.send_bytes(TAKEN)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0
        faulthandler.dump_traceback_later(limit, exit=True)
        reply = pickle.dumps(_answer(request, _sender(connection)), protocol=pickle.HIGHEST_PROTOCOL)
        faulthandler.cancel_dump_traceback_later()
        try:
            connection.send_bytes(reply)
        except (BrokenPipeError, ConnectionResetError):
            return 0


def _sender(connection: Connection) -> Subscriber:
    """Return what sends events; a notebook that is gone is found out when its reply is sent."""
    lock = threading.Lock()  # parts of a compilation run in threads of their own

    def send(event: Event) -> None:
        with lock, suppress(BrokenPipeError, ConnectionResetError):
            connection.send_bytes(pickle.dumps(event, protocol=pickle.HIGHEST_PROTOCOL))

    return send


def _answer(request: Request, send: Subscriber) -> Reply:
    try:
        return _reply("done", _perform(request, send))
    except TesseraError as mistake:
        if isinstance(request, Compile):
            mistake.with_source(request.program.source)
        return _reply("mistake", mistake)
    except Exception:  # noqa: BLE001 - an unforeseen failure of ours: the notebook gets its traceback
        return _reply("failure", traceback.format_exc())


def _reply(outcome: str, value: object) -> Reply:
    return Reply(outcome, value, _peak_bytes())


def _peak_bytes() -> int:
    """The most memory this process has held.

    On Linux `ru_maxrss` will not do: it begins with what the process that started this one held.
    """
    if _STATUS.exists():
        found = re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
        if found is not None:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _perform(request: Request, send: Subscriber) -> object:
    match request:
        case Compile():
            from tessera.lowering.driver.compile import compile_program  # noqa: PLC0415 - loads MLIR

            if request.row is not None:
                TARGETS.setdefault(request.row.name, request.row)
            with subscribe(send, *request.events) if request.events else nullcontext():
                return compile_program(request.program, request.target, request.observe)
        case Warm():
            from tessera.lowering.driver.compile import compile_program  # noqa: PLC0415 - loads MLIR
            from tessera.lowering.service.warmup import trivial_program  # noqa: PLC0415 - needed once at most

            compile_program(trivial_program(), request.target, False)
            gc.freeze()  # collections need not look at what was imported, again and again
            return None
        case Sleep():
            time.sleep(request.seconds)
            return None
        case Abort():
            sys.stderr.write(request.message + "\n")
            sys.stderr.flush()
            os.abort()
        case _:  # a service of another version
            raise TypeError(f"{type(request).__name__} is no request")


def _replay(path: Path) -> int:
    try:
        data = read_private(path)
    except Untrusted as error:
        sys.stderr.write(f"refused, since a report can run code: {error}\n")
        return 1
    request: Request = pickle.loads(data)  # noqa: S301 - the user's own report
    reply = _answer(request, lambda event: sys.stdout.write(f"{event}\n"))
    sys.stdout.write(f"{reply.outcome}\n" if reply.outcome == "done" else f"{reply.outcome}: {reply.value}\n")
    return 0 if reply.outcome == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
