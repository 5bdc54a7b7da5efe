"""Fitting kernels to the GPU: which schedules are tried, why they do not fit, and what is said of the one that does."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from lowering.cuda.hopper import product
from support.product_programs import matrix_product
from support.simulate import compile_cuda
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.events import Attempted, subscribe
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS, Target
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.cuda_toolkit import Usage
from tessera.lowering.base.passes import run_passes
from tessera.lowering.cuda.fit import ONE_BY_ONE, Attempts, Case, Code, Fitted, fit
from tessera.lowering.cuda.kernel.kernel_emission import LoweredKernel
from tessera.lowering.cuda.pipeline.shared_plan import planned_bytes
from tessera.lowering.cuda.schedule.context import kernel_of
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.hoisting import hoist_tiles
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.to_tile import to_tile

HOPPER = Target("cuda", "sm_90a")
SERIAL = "wgmma.mma_async instructions are serialized"


@contextmanager
def case_of(program: Program) -> Generator[Case]:
    """What is fitted, as long as its module is alive."""
    with shared_context():
        module = to_tile(program)
        run_passes(tile_passes(TARGETS["cuda"]), module)
        function = kernel_of(module)
        hoist_tiles(function)
        yield Case(module, function, program, HOPPER)


def fitted(program: Program, *answers: str) -> tuple[Fitted, list[bool]]:
    """Fit a kernel by an assembler that answers so, one attempt after the other; gives whether products ran on."""
    waiting, running = list(answers), list[bool]()

    def assemble(lowered: LoweredKernel) -> Code:
        assert lowered.plan is not None
        running.append(any(ring.running is not None for ring in lowered.plan.rings))
        return Code(b"", Usage(0, 0, 0, 0), (), serialised=waiting.pop(0) if waiting else "")

    with case_of(program) as case:
        return fit(case, Attempts(program, HOPPER), assemble, None), running


def test_each_attempt_is_recorded_with_its_reason_and_told():
    heard: list[Attempted] = []
    with subscribe(heard.append, Attempted):
        found, _ = fitted(product())
    assert list(found.attempts) == heard
    assert [attempt.number for attempt in heard] == list(range(len(heard)))
    assert heard[0].choices["stages"] == 7
    assert heard[0].reason == "pipelines take 409,712 of 232,448 bytes of shared memory"
    assert all(attempt.reason for attempt in heard[:-1])
    last = heard[-1]
    assert last.reason == ""
    assert (last.choices["stages"], last.choices["epilogue_stages"]) == (4, 2)


def test_the_attempts_come_with_the_artifact():
    resources = compile_cuda(product(stages=3)).artifact.resources
    assert [(attempt.choices["stages"], attempt.reason) for attempt in resources.attempts] == [(3, "")]


def test_what_is_planned_is_what_pipelines_take():
    with case_of(product()) as case:
        found = fit(case, Attempts(case.program, HOPPER), lambda _: Code(b"", Usage(0, 0, 0, 0), ()), None)
        plan = ScheduleView(case.function)
        planned = planned_bytes(plan, plan.schedule, 232_448)
    buffers = sum(one.count * one.size for one in found.lowered.buffers)
    barriers = 2 * 8 * plan.schedule.stages
    assert planned == buffers + barriers
    assert found.lowered.frame.shared.peak >= planned


def test_the_stage_that_fits_stands_in_the_tile_ir():
    compilation = compile_cuda(product())
    stages = {listing.stage: listing.text for listing in compilation.listings if listing.level == "tile"}
    assert " stages 4 " in stages["cuda-fit"].splitlines()[0]
    assert " stages " not in stages["cuda-defer-epilogue"].splitlines()[0]
    assert [record.name for record in compilation.passes][-2:] == ["cuda-fit", "generate-cuda"]


def test_products_that_the_assembler_cannot_follow_are_waited_for_one_by_one():
    found, running = fitted(product(), SERIAL)
    assert running == [True, False]
    assert found.notes == (ONE_BY_ONE,)
    reasons = [attempt.reason for attempt in found.attempts if "assembler" in attempt.reason]
    assert reasons == [f"the assembler has all products wait for each other: {SERIAL}"]
    assert found.attempts[-1].choices["overlap"] is False


def test_products_that_are_refused_one_by_one_are_our_fault():
    with pytest.raises(CompilerCrash, match="instructions are serialized"):
        fitted(product(), SERIAL, SERIAL)


def test_tiles_that_shared_memory_has_no_room_for_lie_in_global_memory():
    resources = compile_cuda(matrix_product((256, 512, 128), num_warps=8), "sm_90a").artifact.resources
    assert [(attempt.choices, attempt.reason) for attempt in resources.attempts] == [
        ({"tiles": "shared memory"}, "tiles take 524,288 bytes more than there are of shared memory"),
        ({"tiles": "global memory"}, ""),
    ]
