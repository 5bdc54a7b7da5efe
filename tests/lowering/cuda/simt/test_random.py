"""Random kernels of every construct and dtype: the GPU's instructions leave the interpreter's bits."""

from hypothesis import HealthCheck, given, settings

from lowering.cuda.compare import agree
from support.random_programs import Case, cases


@settings(max_examples=12, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
@given(cases())
def test_a_random_kernel(case: Case):
    agree(case.program, case.arguments(), case.groups)
