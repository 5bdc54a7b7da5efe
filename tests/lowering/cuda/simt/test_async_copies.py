"""Copies stay in flight over barriers as long as nobody can tell."""

import re

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal, poison
from support.interpret_programs import Writer
from support.simulate import ptx_of
from tessera.core.artifact import Artifact
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Domain

ON_HARDWARE = True

LANES = 64


def waits(artifact: Artifact) -> list[int]:
    """How many groups each wait leaves in flight, in the order of the text."""
    return [int(n) for n in re.findall(r"cp\.async\.wait_group\s+(\d+)", ptx_of(artifact))]


class Pipeline(Writer):
    """x and out have LANES elements a stage."""

    def __init__(self, stages: int) -> None:
        super().__init__("pipeline")
        self.x = self.array("x", f32, "n", mutable=True)
        self.out = self.array("out", f32, "m", mutable=True)
        self.buffers = [self.alloc(f32, LANES) for _ in range(stages)]
        self.lane = self.id("lane")

    def start(self, stage: int) -> None:
        self.copy(self.buffers[stage], self.x, [self.const(stage * LANES)], [LANES])

    def use(self, stage: int) -> None:
        value = self.read(self.buffers[stage], self.value("sub", self.const(LANES - 1), self.lane))
        self.write(self.out, value, self.value("add", self.lane, self.const(stage * LANES)))

    def check(self, stages: int) -> list[int]:
        program = self.program(group=(LANES,), domain=Domain("lanes", (LANES,)))
        for seed in (1, 2):
            artifact, _ = agree(program, [normal(stages * LANES), poison(stages * LANES)], seed=seed)
        return waits(artifact)


def test_three_stages_land_one_after_the_other():
    b = Pipeline(3)
    for stage in range(3):
        b.start(stage)
    for stage in range(3):
        b.barrier()
        b.use(stage)
    b.barrier()
    # The third barrier's wait is followed by the fourth, before which only the third buffer is read.
    assert b.check(3) == [2, 1, 0, 0]


def test_a_buffer_that_is_read_out_of_order_lands_with_all_before_it():
    b = Pipeline(3)
    for stage in range(3):
        b.start(stage)
    for stage in (1, 0, 2):
        b.barrier()
        b.use(stage)
    b.barrier()
    assert b.check(3) == [1, 1, 0, 0]


def test_new_copies_start_while_old_ones_are_used():
    b = Pipeline(3)
    b.start(0)
    b.start(1)
    b.barrier()
    b.use(0)
    b.start(2)
    b.barrier()
    b.use(1)
    b.barrier()
    b.use(2)
    b.barrier()
    assert b.check(3) == [1, 1, 0, 0]


def test_a_source_that_changes_is_copied_before():
    """The user's barrier says that the copy has read what it copies."""
    b = Pipeline(1)
    b.start(0)
    b.barrier()
    b.write(b.x, b.const(7.0, f32), b.lane)
    b.barrier()
    b.use(0)
    b.barrier()
    assert b.check(1) == [0, 0, 0]


def test_a_buffer_that_is_filled_again_has_landed():
    b = Pipeline(1)
    b.start(0)
    b.barrier()
    b.start(0)
    b.barrier()
    b.use(0)
    b.barrier()
    assert b.check(1) == [0, 0, 0]


@pytest.mark.parametrize("turns", [0, 3])
def test_loops_and_branches_wait_for_everything(turns: int):
    b = Pipeline(2)
    b.start(0)
    b.start(1)
    with b.loop(b.const(0), b.const(turns), b.const(1)):
        b.barrier()
        b.write(b.buffers[0], b.value("add", b.read(b.buffers[0], b.lane), b.const(1.0, f32)), b.lane)
    b.barrier()
    b.use(0)
    b.use(1)
    assert set(b.check(2)) <= {0}


def test_a_copy_in_a_branch_is_older_than_those_after_it():
    b = Pipeline(3)
    b.start(0)
    with b.when(b.compare("lt", b.dim("n"), b.const(1000))):
        b.start(1)
    b.start(2)
    b.barrier()
    b.use(0)
    b.barrier()
    b.use(1)
    b.use(2)
    b.barrier()
    assert b.check(3) == [1, 0, 0]


def test_sums_over_stages_are_right():
    b = Pipeline(2)
    b.start(0)
    b.start(1)
    b.barrier()
    first = b.read(b.buffers[0], b.lane)
    b.barrier()
    total = b.value("add", first, b.read(b.buffers[1], b.lane))
    b.write(b.out, total, b.lane)
    x = np.arange(2 * LANES, dtype=np.float32)
    program = b.program(group=(LANES,), domain=Domain("lanes", (LANES,)))
    _, (_, out) = agree(program, [x, poison(LANES)])
    np.testing.assert_array_equal(out, x[:LANES] + x[LANES:])
