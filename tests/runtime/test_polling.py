"""Waiting for a GPU that answers late, or never."""

import os
import signal
import threading

import pytest

from tessera.runtime.polling import poll


def test_a_wait_that_is_not_over_asks_again():
    answers = iter([False] * 50 + [True])
    poll(lambda: next(answers))
    assert list(answers) == []


def test_ctrl_c_ends_a_wait_for_a_gpu_that_never_answers():
    done = threading.Event()

    def interrupt() -> None:
        done.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        poll(lambda: False)
