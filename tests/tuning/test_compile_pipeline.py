"""Compilations of a search: handed over as they are done, ended with the search."""

import os
import threading
from concurrent.futures import CancelledError
from contextlib import suppress

import numpy as np
import pytest

import tessera
from support.interrupts import interrupted_everywhere
from tessera.core.errors.base import TesseraError
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.session.session import session
from tessera.tuning.compile_pipeline import Pipeline
from tessera.tuning.search_space import Proposal

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
"""


@pytest.fixture
def kernel() -> Kernel:
    return tessera.compile_source(SOURCE).doubled


VALUES = (np.zeros(100, np.float32), np.zeros(100, np.float32))


def proposal(kernel: Kernel, step: int) -> Proposal:
    return Proposal({"STEP": step}, kernel.with_constants({"STEP": step}))


def test_what_is_done_comes_with_its_proposal(kernel: Kernel):
    wanted = [proposal(kernel, step) for step in (16, 0, 32)]
    with Pipeline(kernel, VALUES, compiles=True) as pipeline:
        for one in wanted:
            pipeline.submit(one)
        found = {}
        while (done := pipeline.take(waiting=True)) is not None:
            found[done[0].config["STEP"]] = done[1]
    assert isinstance(found[16], Compiled)
    assert isinstance(found[32], Compiled)
    assert isinstance(found[0], TesseraError)
    assert pipeline.compiled == 3


def test_it_has_room_for_as_many_as_there_are_compilers(kernel: Kernel):
    with overridden(workers=2), Pipeline(kernel, VALUES, compiles=True) as pipeline:
        assert pipeline.has_idle_worker
        pipeline.submit(proposal(kernel, 16))
        assert pipeline.has_idle_worker
        pipeline.submit(proposal(kernel, 64))
        assert not pipeline.has_idle_worker
        assert pipeline.take(waiting=True) is not None
        assert pipeline.has_idle_worker


def test_nothing_is_compiled_for_the_interpreter(kernel: Kernel):
    with Pipeline(kernel, VALUES, compiles=False) as pipeline:
        one = proposal(kernel, 16)
        pipeline.submit(one)
        assert pipeline.take() == (one, None)
        assert pipeline.take(waiting=True) is None


def test_an_exception_ends_the_compilations(kernel: Kernel):
    def interrupted() -> None:
        with Pipeline(kernel, VALUES, compiles=True) as pipeline:
            pipeline.submit(proposal(kernel, 48))
            while not session().service.busy and pipeline.take() is None:
                os.sched_yield()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert session().service.busy == 0


class Compiling(Kernel):
    """A kernel whose compilations take no time, or until they are stopped."""

    def __init__(self, endless: bool) -> None:
        self.endless, self.stopped = endless, threading.Event()
        self.running = 0

    def compile_quietly(self, *arguments: object, target: str | None = None, **keywords: object) -> Compiled:
        self.running += 1
        if self.endless:
            self.stopped.wait()
        self.running -= 1
        raise TesseraError("stopped")

    def stop_compiling(self) -> None:
        self.stopped.set()


def test_ctrl_c_between_any_two_lines_ends_the_compilations_and_leaves_no_lock_held():
    made: list[Pipeline] = []

    def use() -> None:
        quick, endless = Compiling(endless=False), Compiling(endless=True)
        with Pipeline(endless, (), compiles=True) as pipeline:
            made.append(pipeline)
            pipeline.submit(Proposal({}, quick))
            assert pipeline.take(waiting=True) is not None
            pipeline.submit(Proposal({}, endless))
            assert pipeline.take() is None
            raise RuntimeError

    def check(line: int) -> None:
        if not made:
            return
        (pipeline,) = made
        made.clear()
        pipeline._kernel.stop_compiling()  # what the search goes on to do where Ctrl-C comes before `__exit__` begins
        for future in pipeline._running:
            future.cancel()
            with suppress(TesseraError, CancelledError):
                future.result(10)
        pipeline._pool.shutdown()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("tessera-tune")], line

    def call() -> None:
        with suppress(RuntimeError):
            use()

    with overridden(workers=2):
        assert interrupted_everywhere(call, check, "tuning/compile_pipeline.py") > 80
