"""Random kernels with windows that stick out: every target leaves out, and stores, what the interpreter does."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from frontend.kernels import array, build, scalar
from support import simulate, tile_machine
from support.absent_kernels import Case, cases
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Program
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.interpret.run import run
from tessera.runtime.launch.cpu import CpuLauncher

host = cache(host_target)


def expected(case: Case) -> np.ndarray:
    """What the interpreter makes of y."""
    program, arguments = case.program, case.arguments()
    shapes = {(i, a): e for i, v in enumerate(arguments[:2]) for a, e in enumerate(v.shape)}
    run(program, arguments, symbols={s.name: shapes[s.parameter, s.axis] * s.scale for s in program.symbols})
    return arguments[1]


@given(cases())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType] - its own iterator has no types
def test_the_cpu_agrees(case: Case) -> None:
    arguments = case.arguments()
    CpuLauncher(compile_program(case.program, host(), observe=False).artifact)(*arguments)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)


@given(cases())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType] - its own iterator has no types
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_cuda_agrees(arch: str, case: Case) -> None:
    arguments = case.arguments()
    simulate.simulate(case.program, arguments, arch=arch)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)


@given(cases())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType] - its own iterator has no types
def test_cuda_tile_agrees(case: Case) -> None:
    arguments = case.arguments()
    tile_machine.simulate(case.program, arguments)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)


LANES = """
@kernel tile[(32,)]
def k(x: f32[n], y: mut f32[m], c: i64):
    buffer = tshared.alloc[f32](32)
    i = tile.linear_id()
    buffer[i] = 1.0
    tbarrier()
    t = x[c:c+32] * 2.0 + buffer[0:32]
    y[0:32] = t
    y[32] = tile.max(t - 100.0)
    y[33] = tile.sum(tile.cast(tile.valid(t), f32))
"""


@pytest.mark.parametrize("c", [-5, 0, 30, 60])
def test_kernels_with_lanes_and_shared_memory(c: int) -> None:
    x = np.arange(50, dtype=np.float32)
    places = np.arange(c, c + 32)
    exists = (places >= 0) & (places < 50)
    values = np.where(exists, places * 2 + 1, -np.inf)
    want = [*np.where(exists, values, 99), values.max() - 100, exists.sum()]
    program = build(LANES, array(f32, 50), array(f32, 34), scalar(i64), group=(32,))
    for runs in (_cpu, simulate.simulate, _interpret):
        y = np.full(34, 99, np.float32)
        runs(program, [x, y, np.int64(c)])
        assert y.tolist() == want


def _cpu(program: Program, arguments: list[Any]) -> None:
    CpuLauncher(compile_program(program, host(), observe=False).artifact)(*arguments)


def _interpret(program: Program, arguments: list[Any]) -> None:
    run(program, arguments, symbols={"n": 50, "m": 34})
