"""Records of a profiled launch on the CPU: real launches, whose records are read back."""

import dataclasses
import os
import time

import numpy as np

from support import programs
from support.cpu import compiled
from tessera.core.artifact import Binding, Slot
from tessera.core.base import dtypes
from tessera.core.base.source import NOWHERE
from tessera.core.profile import END, PLACE, RAN, START, WORDS, WORKER, with_profile
from tessera.core.program.program import Program
from tessera.core.program.types import Scalar
from tessera.runtime.launch.cpu import CpuLauncher


def profiled(program: Program, groups: int, *arguments: object, every: int = 1) -> np.ndarray:
    artifact = compiled(with_profile(program, every))
    number = len(artifact.bindings)
    binding = Binding("records", Scalar(dtypes.u64), False, NOWHERE)
    slots = tuple(Slot("scalar", number) if slot.kind == "profile" else slot for slot in artifact.slots)
    artifact = dataclasses.replace(artifact, bindings=(*artifact.bindings, binding), slots=slots)
    records = np.zeros((groups + 1, WORDS), np.uint64)
    CpuLauncher(artifact)(*arguments, records.ctypes.data)
    assert not records[groups].any()
    return records[:groups]


def test_every_group_writes_when_and_where_it_ran() -> None:
    a, b, c = (np.ones((256, 256), np.float32) for _ in range(3))
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    records = profiled(programs.matmul(), 16, a, b, c)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    np.testing.assert_array_equal(c, np.full((256, 256), 256.0, np.float32))
    assert (before <= records[:, START]).all()
    assert (records[:, START] < records[:, END]).all()
    assert (records[:, END] <= after).all()
    assert (records[:, PLACE] >= RAN).all()
    assert set((records[:, PLACE] - RAN).tolist()) <= set(range(os.cpu_count() or 1))


def test_groups_of_one_thread_follow_each_other() -> None:
    n = 8192 * 20
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    records = profiled(programs.saxpy(), 20, x, y, 2.0)
    np.testing.assert_array_equal(y, np.full(n, 3, np.float32))
    for thread in np.unique(records[:, WORKER]):
        mine = records[records[:, WORKER] == thread]
        mine = mine[np.argsort(mine[:, START])]
        assert (mine[1:, START] >= mine[:-1, END]).all()


def test_every_fourth_group() -> None:
    x, y = np.ones(128 * 18, np.float32), np.zeros(128 * 18, np.float32)
    records = profiled(programs.tile_copy(), 18, x, y, every=4)
    np.testing.assert_array_equal(y, np.full(128 * 18, 2, np.float32))
    ran = records[:, PLACE] >= RAN
    assert np.flatnonzero(ran).tolist() == [0, 4, 8, 12, 16]
    assert (records[ran, START] < records[ran, END]).all()
    assert not records[~ran].any()


def test_an_ordinary_kernel_carries_nothing() -> None:
    assert all(slot.kind != "profile" for slot in compiled(programs.saxpy()).slots)
