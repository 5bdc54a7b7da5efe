"""The cyclic garbage collector: paused where a hundred thousand objects are made that all stay."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the cyclic garbage collector, which would look at every new object again and again: half of the time.

    It goes on afterwards where it was on before, so that pauses may be nested.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
