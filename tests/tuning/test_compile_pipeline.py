"""Compilations of a search: handed over as they are done, ended with the search."""

import time

import numpy as np
import pytest

import tessera
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
        assert pipeline.room
        pipeline.submit(proposal(kernel, 16))
        assert pipeline.room
        pipeline.submit(proposal(kernel, 64))
        assert not pipeline.room
        assert pipeline.take(waiting=True) is not None
        assert pipeline.room


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
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert session().service.busy == 0
