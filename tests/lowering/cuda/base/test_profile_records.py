"""Records of a profiled launch on a GPU, on the machine that runs PTX in this process."""

import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from support import product_programs, programs, ptx_machine, simulate
from support.architectures import limit_shared_memory
from tessera.core.base.dtypes import bf16
from tessera.core.mlir import AnyOp
from tessera.core.profile import CYCLES, END, FIRST_PHASE, PHASES, PLACE, RAN, START, WORKER, with_profile
from tessera.core.program.program import Block, Program, Value
from tessera.lowering.cuda.base.profile_records import phase
from tessera.lowering.cuda.simt import lowering


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def profiled(program: Program, *arguments: object, every: int = 1) -> np.ndarray:
    return simulate.launch(simulate.compile_ptx(with_profile(program, every)), arguments)


def test_every_block_of_a_lane_kernel_writes_one_record() -> None:
    x, y = numbers(2500), numbers(2500) + 1
    want = np.float32(2) * x + y
    records = profiled(programs.saxpy(), x, y, 2.0)
    np.testing.assert_array_equal(y, want)
    assert records.shape == (3, 8)
    assert (records[:, START] < records[:, WORKER]).all()
    assert (records[:, WORKER] < records[:, CYCLES]).all()
    assert (records[:, CYCLES] < records[:, END]).all()
    np.testing.assert_array_equal(records[:, PLACE], RAN + np.arange(3, dtype=np.uint64) % ptx_machine.PROCESSORS)
    assert not records[:, FIRST_PHASE : FIRST_PHASE + len(PHASES)].any()


def test_every_group_of_a_tile_kernel_writes_one_record() -> None:
    x, y = numbers(300), np.zeros(300, np.float32)
    records = profiled(programs.tile_copy(), x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert (records[:, PLACE] >= RAN).all()
    assert len(records) == 3


def test_every_second_group() -> None:
    x, y = numbers(600), np.zeros(600, np.float32)
    records = profiled(programs.tile_copy(), x, y, every=2)
    np.testing.assert_array_equal(y, 2 * x)
    assert np.flatnonzero(records[:, PLACE] >= RAN).tolist() == [0, 2, 4]
    assert not records[1::2].any()


def test_a_block_that_does_several_groups_writes_a_record_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_shared_memory(monkeypatch, 1)
    a, b, c = numbers(30, 6), numbers(6, 9), np.full((30, 9), np.nan, np.float32)
    records = profiled(programs.matmul(8, 8, 4), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    assert len(records) == 8
    assert (records[:, PLACE] >= RAN).all()


def test_an_ordinary_kernel_carries_nothing() -> None:
    artifact = simulate.compile_ptx(programs.saxpy())
    assert all(slot.kind != "profile" for slot in artifact.slots)
    assert not re.search("globaltimer|clock64|smid", simulate.ptx_of(artifact))


@pytest.mark.parametrize("steps", [(128, 128, 64), (64, 64, 32)])
def test_kernels_that_copy_ahead_count_their_phases_and_lose_nothing(steps: tuple[int, int, int]) -> None:
    """The waits of the matrix unit's pipeline are timed inside its loop: no spill, no remark of ptxas."""
    bm, bn, bk = steps
    program = aligned(programs.matmul(bm, bn, bk, bf16))
    plain, recording = (simulate.compile_cuda(p) for p in (program, with_profile(program)))
    assert plain.artifact.launch.persistent
    ptx = next(listing.text for listing in recording.listings if listing.level == "ptx")
    assert ptx.count("%globaltimer") == 2
    assert ptx.count("red.relaxed.gpu.global.add.u64") == 4  # around the wait for loads, and around the store
    assert "wgmma.mma_async" in ptx
    resources = recording.artifact.resources
    assert resources.spill_bytes == plain.artifact.resources.spill_bytes == 0
    assert resources.notes == plain.artifact.resources.notes
    assert resources.registers <= plain.artifact.resources.registers + 16


def test_loops_whose_team_copies_ahead_count_the_wait_and_the_store() -> None:
    program = product_programs.matrix_product((32, 32, 32), bf16, aligned=True)
    a, b, c = numbers(32, 160).astype(bf16.numpy), numbers(160, 32).astype(bf16.numpy), np.zeros((32, 32), np.float32)
    artifact = simulate.compile_ptx(with_profile(program, 1), "sm_80")
    assert "cp.async" in simulate.ptx_of(artifact)
    (record,) = simulate.launch(artifact, [a, b, c])
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=0, atol=1e-3)
    turns = {name: record[FIRST_PHASE + number] for number, name in enumerate(PHASES)}
    # The simulated clock ticks at each look: five waits, one a round of 32, and one store.
    assert turns == {"load": 5, "compute": 0, "store": 1}


def aligned(program: Program) -> Program:
    """The same for arrays whose rows begin at multiples of 16 bytes."""
    parameters = [replace(p, value=Value(replace(p.value.type, aligned=True))) for p in program.parameters]
    values = {old.value: new.value for old, new in zip(program.parameters, parameters, strict=True)}
    return replace(program, parameters=tuple(parameters), body=substituted(program.body, values))


def substituted(block: Block, values: dict[Value, Value]) -> Block:
    """A block that uses other values in the place of some."""
    ops = (
        replace(
            op,
            operands=tuple(values.get(v, v) for v in op.operands),
            regions=tuple(substituted(region, values) for region in op.regions),
        )
        for op in block.ops
    )
    return Block(block.arguments, tuple(ops))


def test_the_turns_of_a_phase_add_up() -> None:
    """Each turn takes one tick of the simulated clock, so that a phase counts its turns."""

    def with_phases(self: lowering.SimtLowering, op: AnyOp) -> None:
        if getattr(op, "name", "") == "tessera.load":
            with phase(self.build, self.frame, "load"):
                return whole(self, op)
        return whole(self, op)

    whole = lowering.SimtLowering._operation
    a, b, c = numbers(8, 12), numbers(12, 8), np.zeros((8, 8), np.float32)
    with mock.patch.object(lowering.SimtLowering, "_operation", with_phases):
        records = profiled(programs.matmul(8, 8, 4), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    assert records[0, FIRST_PHASE] == 6  # three steps, two loads each
    assert not records[0, FIRST_PHASE + 1 : CYCLES].any()
