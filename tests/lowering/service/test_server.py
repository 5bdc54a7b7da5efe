"""The compile service: real workers that are killed, that abort, hang and are interrupted; the next request works."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.interrupts import ctrl_c_inside, held, interrupted_everywhere
from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import CompilerCrash, CompileTimeout
from tessera.core.events import Compiled, Event, PassRan, subscribe
from tessera.core.settings import current, overridden
from tessera.core.targets import Target
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.service import server
from tessera.lowering.service.protocol import TAKEN, Abort, Reply, Sleep
from tessera.lowering.service.server import CompileService, Worker
from tessera.lowering.service.warmup import trivial_program


@pytest.fixture
def service() -> Iterator[CompileService]:
    service = CompileService(workers=1)
    yield service
    service.close()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Iterator[None]:
    with overridden(cache_dir=tmp_path):
        yield


def _status(process: Path) -> list[str]:
    """What Linux says of a process in its folder in /proc, from its state on; nothing of one that is gone."""
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def gone(pid: int) -> bool:
    """Has the process ended?  One whose parent does not wait for it stays as a zombie."""
    return _status(Path(f"/proc/{pid}"))[:1] in ([], ["Z"])


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def later(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def test_compiles_in_another_process(service: CompileService):
    compilation = service.compile(trivial_program(), host_target())
    assert isinstance(compilation.artifact, Artifact)
    assert compilation.artifact.code.startswith(b"\x7fELF")
    assert compilation.listings == ()
    (pid,) = service.process_ids
    assert pid != os.getpid()
    observed = service.compile(trivial_program(), host_target(), observe=True)
    assert {listing.level for listing in observed.listings} >= {"tile", "llvm", "asm"}
    assert service.process_ids == (pid,)


def test_the_passes_that_run_in_the_worker_are_told_here(service: CompileService):
    told: list[Event] = []
    with subscribe(told.append, PassRan, Compiled):
        service.compile(trivial_program(), host_target())
    service.compile(trivial_program(), host_target())
    assert [event.name for event in told if isinstance(event, PassRan)][:: len(told) - 1] == ["to-tile", "generate-cpu"]


def test_ctrl_c_while_an_event_is_handled_ends_the_worker(service: CompileService):
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with subscribe(interrupt, PassRan), pytest.raises(KeyboardInterrupt):
        service.compile(trivial_program(), host_target())
    assert service.process_ids == ()
    assert service.compile(trivial_program(), host_target()).artifact.name == "warm"


def test_an_abort_is_an_error_and_the_next_request_works(service: CompileService):
    with pytest.raises(CompilerCrash, match="ended by SIGABRT"):
        service.call(Abort("LLVM ERROR: Cannot select"))
    assert service.call(Sleep(0)) is None


def test_killed_in_the_middle_of_a_compilation(service: CompileService):
    killed: list[int] = []

    def kill():
        wait_for(lambda: service.busy)
        killed.extend(service.process_ids)
        os.kill(killed[0], signal.SIGKILL)  # long before it has imported the compiler

    program, target = trivial_program(), host_target()
    killer = later(kill)
    with pytest.raises(CompilerCrash) as caught:
        service.compile(program, target)
    killer.join()
    error = caught.value
    assert "ended by SIGKILL while compiling kernel 'warm'" in str(error)
    assert error.span == program.span
    (report,) = (current().cache_dir / "crashes").glob("*.pickle")
    assert str(report) in error.message
    assert f"--replay {report}" in error.hint
    assert service.compile(program, host_target()).artifact.name == "warm"
    assert service.process_ids != tuple(killed)


def test_the_report_can_be_read_and_replayed(service: CompileService):
    test_killed_in_the_middle_of_a_compilation(service)
    (report,) = (current().cache_dir / "crashes").glob("*.pickle")
    text = report.with_suffix(".txt").read_text()
    assert "cause:     ended by SIGKILL" in text
    assert f"again:     python -m tessera.lowering.service.worker --replay {report}" in text
    command = [sys.executable, "-m", "tessera.lowering.service.worker", "--replay", str(report)]
    replay = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (replay.returncode, replay.stdout) == (0, "done\n"), replay.stderr


def test_a_failure_inside_the_compiler_is_reported_with_its_traceback(service: CompileService):
    with pytest.raises(CompilerCrash, match="no compiler for the target 'abacus'"):
        service.compile(trivial_program(), Target("abacus", ""))
    broken = dataclasses.replace(trivial_program(), body=None)
    with pytest.raises(CompilerCrash, match=r"AttributeError.* while compiling kernel 'warm'"):
        service.compile(broken, host_target())
    (text,) = (current().cache_dir / "crashes").glob("*.txt")
    assert "Traceback" in text.read_text()


def test_timeout(service: CompileService):
    service.call(Sleep(0))
    (pid,) = service.process_ids
    with overridden(compile_timeout=0.2), pytest.raises(CompileTimeout, match=r"no answer within 0\.2 s"):
        service.call(Sleep(60))
    assert gone(pid)
    assert service.call(Sleep(0)) is None


def test_interrupt_ends_the_worker(service: CompileService):
    service.call(Sleep(0))
    (pid,) = service.process_ids

    with ctrl_c_inside(Worker.request):
        service.call(Sleep(60))
    assert gone(pid)
    assert service.call(Sleep(0)) is None


_ANSWERS = """
import os, sys
fd = int(sys.argv[sys.argv.index("--connect") + 1])
taken, reply = (bytes.fromhex(text) for text in sys.argv[1:3])
while head := os.read(fd, 4):
    left = int.from_bytes(head, "big")
    while left:
        left -= len(os.read(fd, left))
    for message in (taken, reply):
        os.write(fd, len(message).to_bytes(4, "big") + message)
"""


@pytest.fixture
def quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start within a few ms and answer every request."""
    reply = pickle.dumps(Reply("done", None, 0))
    command = (sys.executable, "-I", "-S", "-c", _ANSWERS, TAKEN.hex(), reply.hex())
    monkeypatch.setattr(server, "_COMMAND", command)


def children() -> set[int]:
    """The processes that this one has started and not waited for."""
    return {int(path.name) for path in Path("/proc").glob("[0-9]*") if _status(path)[1:2] == [str(os.getpid())]}


@pytest.mark.parametrize("waits", [False, True])
def test_ctrl_c_between_any_two_lines_loses_no_worker_and_no_lock(
    service: CompileService, quick_workers: None, waits: bool
):
    """Whether a request has a worker started for it or finds one that waits."""
    others = children()

    def check(line: int) -> None:
        assert not held(service._lock), line
        assert service.busy == 0, line
        assert children() - others == set(service.process_ids), line
        if waits:
            assert service.call(Sleep(0)) is None
        else:
            service.close()
            assert children() == others, line

    check(-1)
    assert interrupted_everywhere(lambda: service.call(Sleep(0)), check, "lowering/service/server.py") > 60
    assert service.call(Sleep(0)) is None


def test_ctrl_c_between_any_two_lines_of_closing_ends_all_workers(service: CompileService, quick_workers: None):
    service.call(Sleep(0))
    others = children() - set(service.process_ids)

    def check(line: int) -> None:
        assert not held(service._lock), line
        assert children() - others == set(service.process_ids), line
        service.call(Sleep(0))

    assert interrupted_everywhere(service.close, check, "lowering/service/server.py") > 20
    assert children() == others


def test_ctrl_c_between_any_two_lines_of_warming_leaves_a_service_that_works(
    service: CompileService, quick_workers: None
):
    others = children()

    def check(line: int) -> None:
        assert service.call(Sleep(0)) is None
        wait_for(lambda: service._warming is None)
        assert not held(service._lock), line
        assert children() - others == set(service.process_ids), line
        service.close()

    assert interrupted_everywhere(service.warm, check, "lowering/service/server.py") > 20


def test_two_at_once():
    service = CompileService(workers=2)
    threads = [later(lambda: service.call(Sleep(0.5))) for _ in range(2)]
    wait_for(lambda: len(set(service.process_ids)) == 2)
    for thread in threads:
        thread.join()
    assert len(service.process_ids) == 2
    service.close()
    assert service.process_ids == ()


def test_more_threads_than_workers(service: CompileService):
    answers: list[object] = []
    threads = [later(lambda: answers.append(service.call(Sleep(0.01)))) for _ in range(6)]
    for thread in threads:
        thread.join()
    assert answers == [None] * 6
    assert len(service.process_ids) == 1


def test_an_idle_worker_that_dies_is_replaced(service: CompileService):
    service.call(Sleep(0))
    (pid,) = service.process_ids
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: gone(pid))
    assert service.call(Sleep(0)) is None


def test_a_worker_that_dies_between_two_requests_fails_neither(service: CompileService):
    for _ in range(3):
        assert service.call(Sleep(0)) is None
        (pid,) = service.process_ids
        os.kill(pid, signal.SIGKILL)  # not waited for: the service may still believe that it lives
        assert service.call(Sleep(0)) is None
        assert service.process_ids != (pid,)


def test_a_worker_that_has_grown_is_replaced(service: CompileService):
    service.call(Sleep(0))
    (pid,) = service.process_ids
    with overridden(worker_bytes=1):
        service.call(Sleep(0))
    assert gone(pid)


def test_what_the_process_around_it_holds_does_not_count(service: CompileService):
    held = bytearray(b"1") * (900 << 20)
    with overridden(worker_bytes=800 << 20):
        service.call(Sleep(0))
        first = service.process_ids
        service.call(Sleep(0))
    assert len(first) == 1
    assert service.process_ids == first
    assert held[-1] == ord("1")


def test_warm_makes_the_worker_that_the_first_request_uses(service: CompileService):
    service.warm()
    service.warm()
    service.compile(trivial_program(), host_target())
    assert len(service.process_ids) == 1


def test_the_worker_ends_with_its_parent():
    script = """
import os
from tessera.lowering.service.server import CompileService
from tessera.lowering.service.protocol import Sleep
service = CompileService()
service.call(Sleep(0))
print(service.process_ids[0], flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    wait_for(lambda: gone(int(done.stdout)))


def test_a_forked_child_starts_its_own_worker():
    script = """
import os
from tessera.lowering.service.server import CompileService
from tessera.lowering.service.protocol import Sleep
service = CompileService()
service.call(Sleep(0))
before = service.process_ids
child = os.fork()
service.call(Sleep(0))
if child == 0:
    assert service.process_ids != before
    service.close()
    os._exit(0)
assert service.process_ids == before
assert os.waitpid(child, 0)[1] == 0
service.call(Sleep(0))
assert service.process_ids == before
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_service_says_so_to_those_who_wait(service: CompileService):
    caught: list[BaseException] = []

    def ask():
        try:
            service.call(Sleep(60))
        except CompilerCrash as error:
            caught.append(error)

    thread = later(ask)
    wait_for(lambda: service.busy)
    service.close()
    thread.join()
    assert "the compile service was closed" in str(caught[0])
    assert not (current().cache_dir / "crashes").exists()
