"""Random kernels with windows that stick out: every target leaves out, and stores, what the interpreter does."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from support import simulate, tile_machine
from support.absent_kernels import Case, cases
from tessera.lowering.compile import compile_program
from tessera.lowering.service import host_target
from tessera.runtime.interpret.run import run
from tessera.runtime.launch import Launcher

host = cache(host_target)


def expected(case: Case) -> Any:
    """What the interpreter makes of y."""
    program, arguments = case.program, case.arguments()
    shapes = {(i, a): e for i, v in enumerate(arguments[:2]) for a, e in enumerate(v.shape)}
    run(program, arguments, symbols={s.name: shapes[s.parameter, s.axis] * s.scale for s in program.symbols})
    return arguments[1]


@given(cases())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_cpu_agrees(case: Case) -> None:
    arguments = case.arguments()
    Launcher(compile_program(case.program, host(), observe=False).artifact)(*arguments)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)


@given(cases())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_cuda_agrees(arch: str, case: Case) -> None:
    arguments = case.arguments()
    simulate.simulate(case.program, arguments, arch=arch)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)


@given(cases())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_cuda_tile_agrees(case: Case) -> None:
    arguments = case.arguments()
    tile_machine.simulate(case.program, arguments)
    np.testing.assert_array_equal(arguments[1], expected(case), err_msg=case.text)
