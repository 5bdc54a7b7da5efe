"""Random kernels: compiled code and the interpreter agree on every bit."""

from functools import cache

import numpy as np
from hypothesis import HealthCheck, given, settings

from support.random_programs import Case, cases
from tessera.core.targets import Target
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.interpret.run import run
from tessera.runtime.launch.cpu import CpuLauncher

host = cache(host_target)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))))


def check(case: Case, target: Target) -> None:
    expected, actual = case.arguments(), case.arguments()
    run(case.program, expected, symbols=case.symbols, grid=(case.groups,))
    launcher = CpuLauncher(compile_program(case.program, target, observe=False).artifact)
    assert launcher.run(actual, Grid((case.groups,))), "the launcher refused exact arguments"
    for parameter, a, b in zip(case.program.parameters, expected, actual, strict=True):
        assert same_bits(a, b), f"{parameter.name}: interpreter {a.ravel()[:8]}, compiled {b.ravel()[:8]}"


@given(cases())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType] - its own iterator has no types
def test_compiled_code_agrees_with_the_interpreter(case: Case) -> None:
    check(case, host())
