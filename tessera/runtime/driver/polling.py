"""Waiting for a GPU by asking it, so that the process can still be interrupted."""

import time
from collections.abc import Callable
from typing import Final

from tessera.core.base.interrupts import raise_if_stopped

_SPIN: Final = 100e-6  # seconds of asking without a pause, then pauses that grow: a short wait stays short
_PAUSES: Final = ((0.002, 20e-6), (0.05, 200e-6), (float("inf"), 2e-3))  # (waited up to, pause), seconds


def poll(done: Callable[[], bool]) -> None:
    """Ask until `done`, with pauses that grow; signals are seen within 2 ms."""
    start = time.perf_counter()
    for limit, pause in ((_SPIN, 0.0), *_PAUSES):
        while not done():
            if time.perf_counter() - start > limit:
                break
            if pause:
                time.sleep(pause)
                raise_if_stopped()
        else:
            return
