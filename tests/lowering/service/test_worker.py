"""The worker's loop, without a process of its own."""

import pickle
from multiprocessing import Pipe
from threading import Thread
from typing import Any

import pytest

from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.events import PassRan, wanted
from tessera.core.targets import Target
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.service.protocol import TAKEN, Compile, Reply, Sleep
from tessera.lowering.service.warmup import trivial_program
from tessera.lowering.service.worker import main, serve


def ask(*requests: object) -> list[Reply]:
    ours, theirs = Pipe()
    thread = Thread(target=serve, args=(theirs, 60.0))
    thread.start()
    replies: list[Any] = []
    for request in requests:
        ours.send_bytes(pickle.dumps(request))
        assert ours.recv_bytes() == TAKEN
        replies.append(pickle.loads(ours.recv_bytes()))
    ours.close()
    thread.join()
    return replies


def test_answers_until_the_pipe_closes():
    first, second = ask(Sleep(0), Sleep(0))
    assert (first.outcome, first.value) == ("done", None)
    assert second.peak_bytes > 1 << 20


def test_a_mistake_travels_with_its_source():
    (reply,) = ask(Compile(trivial_program(), Target("abacus", ""), observe=False))
    assert reply.outcome == "mistake"
    assert isinstance(reply.value, CompilerCrash)
    assert reply.value.source is not None


def test_events_travel_before_the_reply():
    ours, theirs = Pipe()
    thread = Thread(target=serve, args=(theirs, 60.0))
    thread.start()
    request = Compile(trivial_program(), host_target(), observe=False, events=(PassRan,))
    ours.send_bytes(pickle.dumps(request))
    assert ours.recv_bytes() == TAKEN
    received: list[Any] = []
    while not received or not isinstance(received[-1], Reply):
        received.append(pickle.loads(ours.recv_bytes()))
    ours.close()
    thread.join()
    assert received[-1].outcome == "done"
    ran = received[:-1]
    assert {(event.kernel, event.target) for event in ran} == {("warm", str(host_target()))}
    assert [event.name for event in ran][:2] == ["to-tile", "tile-mask-absent"]
    assert (ran[-1].level, ran[-1].name) == ("target", "generate-cpu")
    assert all(event.seconds > 0 for event in ran)
    assert [event.changed for event in ran] == [None] * (len(ran) - 1) + [True]
    assert not wanted(PassRan)


def test_a_failure_travels_as_text():
    (reply,) = ask("nonsense")
    assert reply.outcome == "failure"
    assert "Traceback" in str(reply.value)


def test_a_mistake_survives_the_pipe():
    error = pickle.loads(pickle.dumps(CompilerCrash("message", hint="hint")))
    assert isinstance(error, TesseraError)
    assert (error.message, error.hint) == ("message", "hint")


def test_the_command_line_wants_something(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([])
    assert "--replay" in capsys.readouterr().err
