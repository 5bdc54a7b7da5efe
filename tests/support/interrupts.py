"""Ctrl-C between any two lines of the runtime, and while the main thread waits in a given function."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest


def interrupted(call: Callable[[], object], line: int, where: str = "tessera/runtime/") -> bool:
    """Run `call`, with KeyboardInterrupt before the `line`-th line that it executes in files of `where`.

    Returns whether it came to that line.
    """
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if where not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@contextmanager
def ctrl_c_inside(function: Callable[..., object]) -> Iterator[None]:
    """Send Ctrl-C to the main thread once it stands in `function`, and expect the KeyboardInterrupt.

    A timer alone would hit the lines before the call on a machine that is busy.
    """
    code, main = function.__code__, threading.main_thread().ident
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            if _stands_in(sys._current_frames()[main], code):
                time.sleep(0.05)  # it goes on to where it waits
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.002)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        ended.set()
        sender.join()


def _stands_in(frame: FrameType | None, code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
