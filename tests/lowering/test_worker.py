"""The worker's loop, without a process of its own."""

import pickle
from multiprocessing import Pipe
from threading import Thread

import pytest

from tessera.core.errors import TesseraError
from tessera.core.mistakes import CompilerCrash
from tessera.core.targets import Target
from tessera.lowering.protocol import TAKEN, Compile, Reply, Sleep
from tessera.lowering.warm import trivial_program
from tessera.lowering.worker import main, serve


def ask(*requests: object) -> list[Reply]:
    ours, theirs = Pipe()
    thread = Thread(target=serve, args=(theirs, 60.0))
    thread.start()
    replies = []
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


def test_a_failure_travels_as_text():
    (reply,) = ask("nonsense")
    assert reply.outcome == "failure"
    assert "Traceback" in reply.value


def test_a_mistake_survives_the_pipe():
    error = pickle.loads(pickle.dumps(CompilerCrash("message", hint="hint")))
    assert isinstance(error, TesseraError)
    assert (error.message, error.hint) == ("message", "hint")


def test_the_command_line_wants_something(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([])
    assert "--replay" in capsys.readouterr().err
