"""Lock-step under masks gives what each lane gives on its own."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from support.lane_by_lane import run_lanes
from support.random_programs import Case, cases
from tessera.runtime.interpret.run import run


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind not in "iub":
        nan = np.isnan(a) & np.isnan(b)
        return bool(np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))))
    return bool(np.array_equal(a, b))


@given(cases(tiles=False))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_lock_step_is_what_each_lane_does(case: Case) -> None:
    together, apart = case.arguments(), case.arguments()
    run(case.program, together, symbols=case.symbols, grid=(case.groups,), sanitize=False)
    run_lanes(case.program, apart, case.symbols, case.groups)
    for parameter, a, b in zip(case.program.parameters, together, apart, strict=True):
        assert same_bits(a, b), parameter.name


@given(cases(inside=True))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_sanitizer_is_silent_about_right_kernels_and_changes_nothing(case: Case) -> None:
    plain, watched = case.arguments(), case.arguments()
    run(case.program, plain, symbols=case.symbols, grid=(case.groups,))
    run(case.program, watched, symbols=case.symbols, grid=(case.groups,), sanitize=True)
    for parameter, a, b in zip(case.program.parameters, plain, watched, strict=True):
        assert same_bits(a, b), parameter.name
