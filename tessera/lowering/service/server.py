"""The compile service: programs in, compilations out, with all of MLIR and LLVM in worker processes.

A worker that dies, hangs or is interrupted costs one `TesseraError` (or the KeyboardInterrupt); the next compilation
starts a new one.  Every method may be called from any thread.
"""

import atexit
import os
import pickle
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from tessera.core.base.interrupts import LOOK, DeferredInterrupts, deferred_interrupts, raise_if_stopped
from tessera.core.compilation import Compilation
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CompilerCrash, CompileTimeout
from tessera.core.events import Event, publish, wanted
from tessera.core.program.program import Program
from tessera.core.settings import current
from tessera.core.targets import TARGETS, Target
from tessera.lowering.artifact_cache.key import toolchain
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.service.crash_reports import CrashReport, write_report
from tessera.lowering.service.protocol import FROM_COMPILER, Compile, Reply, Request, Warm

_STDERR_BYTES: Final = 8192
_LAST_BREATH: Final = 2.0  # seconds that a worker has between closing its pipe and its end
# -P: modules that lie in the user's folder must not shadow what the worker imports.
_COMMAND: Final = (sys.executable, "-P", "-m", "tessera.lowering.service.worker")


class WorkerDied(Exception):
    """The worker ended without a reply; `status` is its exit status (negative: the signal), `stderr` its last words.

    `idle` says that it had answered before and died before it took the request: the request is not to blame.
    """

    def __init__(self, status: int, stderr: str, idle: bool) -> None:
        super().__init__(status)
        self.status = status
        self.stderr = stderr
        self.idle = idle


class Worker:
    """One worker process and the pipe to it.  Not thread-safe: the service lends it to one thread at a time."""

    def __init__(self) -> None:
        self.closed = False
        self.answered = False
        ours, theirs = Pipe()
        self.connection: Connection = ours
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `kill`
        with theirs:
            self.process = subprocess.Popen(
                [*_COMMAND, "--connect", str(theirs.fileno()), "--limit", str(current().compile_timeout + 60.0)],
                stdin=subprocess.DEVNULL,
                stdout=self.stderr,
                stderr=self.stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal goes to the notebook alone
                env=_environment(),
            )

    def request(self, request: Request, seconds: float, deferral: DeferredInterrupts) -> Reply:
        """Send `request`, publish the events on its way, and return the reply.

        deferral: of the caller; it is lifted meanwhile

        Raises TimeoutError after `seconds`, WorkerDied when the worker ends.
        """
        started = self.stderr.seek(0, os.SEEK_END)
        deadline = time.monotonic() + seconds
        idle = self.answered
        try:
            with deferral.lifted():
                self.connection.send_bytes(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
                self._receive(deadline)  # the worker has taken the request
                idle = False
                while not isinstance(reply := self._message(deadline), Reply):
                    publish(reply)
        except TimeoutError:  # an OSError, too
            raise
        except (EOFError, OSError):
            raise self._death(started, idle, deferral) from None
        self.answered = True
        return reply

    def _message(self, deadline: float) -> Reply | Event:
        return pickle.loads(self._receive(deadline))  # noqa: S301 - from our own worker

    def _receive(self, deadline: float) -> bytes:
        """Wait for a message; in short steps, since a signal that comes just before a wait does not wake it."""
        while (left := deadline - time.monotonic()) > 0:
            if self.connection.poll(min(left, LOOK)):
                return self.connection.recv_bytes()
            raise_if_stopped()
        raise TimeoutError

    def _death(self, started: int, idle: bool, deferral: DeferredInterrupts) -> WorkerDied:
        deadline = time.monotonic() + _LAST_BREATH
        while self.alive and time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK)
            deferral.deliver()
        self.process.kill()  # it closed the pipe and lives on; does nothing to one that has ended
        status = self.process.wait()
        size = self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(started, size - _STDERR_BYTES))
        return WorkerDied(status, self.stderr.read().decode(errors="replace"), idle)

    def stop(self) -> None:
        """End the process and what it started (`ptxas`), at once; who waits for its reply gets WorkerDied."""
        self.closed = True
        if self.process.poll() is None:
            # The worker leads a session of its own, so its process group is exactly itself and its children.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def kill(self) -> None:
        """End the worker for good; harmless when it is gone already.  Only its owner may call it, no reply pending."""
        self.stop()
        self.connection.close()
        self.stderr.close()

    def forget(self) -> None:
        """Let go of a worker that belongs to the process this one was forked from."""
        self.process.returncode = 0  # no child of this process, which must not wait for it
        self.connection.close()
        self.stderr.close()

    @property
    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self.process.poll() is None


def _environment() -> dict[str, str]:
    """The worker imports this very Tessera, also where it is not installed but on `sys.path`."""
    root = str(Path(__file__).resolve().parent.parent.parent.parent)
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return dict(os.environ)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


class CompileService:
    """Compiles in at most `workers` processes, started when needed; `workers` None: the setting of that name."""

    def __init__(self, workers: int | None = None) -> None:
        self._limit = workers
        self._lock = threading.RLock()  # an interrupt cannot leave it locked, as it could a Condition
        self._changed = threading.Condition(self._lock)
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._warming: threading.Thread | None = None
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget)

    def compile(self, program: Program, target: Target, observe: bool = False) -> Compilation:
        """Compile `program` for `target`; with `observe`, every level and pass is recorded.

        Raises the TesseraError of a mistake in the kernel, CompilerCrash when the compiler dies or fails (a report to
        replay it lies in the cache directory), CompileTimeout.  KeyboardInterrupt ends the worker.
        """
        events = tuple(kind for kind in FROM_COMPILER if wanted(kind))
        request = Compile(program, target, observe, events, TARGETS.get(target.name))
        try:
            value = self.call(request)
        except TesseraError as error:
            raise error.with_source(program.source) from None
        if not isinstance(value, Compilation):
            raise TypeError(f"the worker sent {type(value).__name__}, not a Compilation")
        return value

    def call(self, request: Request) -> object:
        """Have a worker answer `request` and return its value; see `compile` for what is raised."""
        while (reply := self._request(request)) is None:
            pass  # each round uses up a worker that had died while it was idle
        if reply.outcome == "mistake" and isinstance(reply.value, TesseraError):
            raise reply.value
        if reply.outcome == "failure":
            text = str(reply.value)
            raise _crash(request, text.strip().splitlines()[-1], text)
        return reply.value

    def _request(self, request: Request) -> Reply | None:
        """Return a worker's reply, or None when the worker had died before it could take the request."""
        with deferred_interrupts() as deferral:
            worker, sound = self._acquire(deferral), False
            try:
                reply = worker.request(request, current().compile_timeout, deferral)
                sound = reply.peak_bytes <= current().worker_bytes
            except WorkerDied as death:
                if worker.closed:
                    raise CompilerCrash("stopped: the compile service was closed") from None
                if death.idle:
                    return None
                raise _crash(request, _cause(death.status), death.stderr) from None
            except TimeoutError:
                raise _timeout(request) from None
            finally:
                self._give_back(worker, sound=sound)
            return reply

    def warm(self, target: Target | None = None) -> None:
        """Start a worker in the background and let it practise; does nothing when one is there already."""
        with deferred_interrupts(), self._changed:
            if self._idle or self._busy or self._warming is not None:
                return
            self._warming = threading.Thread(target=self._warm, args=(target,), name="tessera-warm", daemon=True)
            self._warming.start()

    def close(self) -> None:
        """End all workers; the service can be used again afterwards."""
        with deferred_interrupts():
            self._end_all()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process ids of the workers, busy ones last."""
        with self._lock:
            return tuple(worker.process.pid for worker in [*self._idle, *self._busy])

    @property
    def busy(self) -> int:
        """How many workers are answering a request."""
        with self._lock:
            return len(self._busy)

    def _end_all(self) -> None:
        with self._lock:
            idle, busy = [*self._idle], [*self._busy]
            self._idle.clear()
            self._busy.clear()
        for worker in idle:
            worker.kill()
        for worker in busy:
            worker.stop()

    def _warm(self, target: Target | None) -> None:
        worker, sound = None, False
        try:
            worker = Worker()
            with self._lock:
                self._busy.add(worker)
            target = target or host_target()
            toolchain(target.name)  # a part of every key, and slow to find out
            worker.request(Warm(target), current().compile_timeout, deferred_interrupts())
            sound = True
        except (WorkerDied, TimeoutError):
            pass  # not reported here: whatever is wrong with the compiler, the user's own compilation will say it
        finally:
            with self._changed:
                self._warming = None
                self._changed.notify_all()
            if worker is not None:
                self._give_back(worker, sound=sound)

    def _acquire(self, deferral: DeferredInterrupts) -> Worker:
        with self._changed:
            while True:
                while self._idle:
                    worker = self._idle.pop()
                    if worker.alive:
                        self._busy.add(worker)
                        return worker
                    worker.kill()
                # While one worker warms up, waiting for it is faster than starting another.
                if self._warming is None and len(self._busy) < (self._limit or current().workers):
                    worker = Worker()
                    self._busy.add(worker)
                    return worker
                self._changed.wait(timeout=LOOK)
                deferral.deliver()

    def _give_back(self, worker: Worker, *, sound: bool) -> None:
        """Take a worker back; one that did not come to the end of its request in good order is ended."""
        if not sound:
            worker.stop()
        with self._changed:
            known = worker in self._busy
            self._busy.discard(worker)
            if known and worker.alive:
                self._idle.append(worker)
            else:
                worker.kill()
            self._changed.notify()

    def _forget(self) -> None:
        """A forked child must not talk through its parent's pipes: forget the workers without ending them."""
        self._lock = threading.RLock()  # another thread of the parent may have held the old one
        self._changed = threading.Condition(self._lock)
        for worker in [*self._idle, *self._busy]:
            worker.forget()
        self._idle, self._busy, self._warming = [], set(), None


def _cause(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _crash(request: Request, cause: str, details: str) -> CompilerCrash:
    if not isinstance(request, Compile):
        return CompilerCrash(f"{cause} on {type(request).__name__}")
    program = request.program
    report = write_report(CrashReport(program.name, cause, details, request), current().cache_dir / "crashes")
    return CompilerCrash(
        f"{cause} while compiling kernel {program.name!r}; a report lies in {report}",
        span=program.span,
        hint="this is our mistake, not yours; to see it again: "
        f"python -m tessera.lowering.service.worker --replay {report}",
    )


def _timeout(request: Request) -> CompileTimeout:
    seconds = current().compile_timeout
    hint = "use smaller constant tile extents, or raise TESSERA_COMPILE_TIMEOUT"
    if not isinstance(request, Compile):
        return CompileTimeout(f"no answer within {seconds:g} s", hint=hint)
    program = request.program
    return CompileTimeout(f"kernel {program.name!r} took more than {seconds:g} s", span=program.span, hint=hint)
