"""Operands of functions that need floats."""

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i32
from tessera.graphs.trace import tracing
from tessera.ops.definitions.floats import float_dtype, widened


@pytest.mark.parametrize(
    ("given", "result", "computed"),
    [
        (np.float16, f16, f32),
        (np.float32, f32, f32),
        (np.float64, f64, f64),
        (np.int32, f32, f32),
        (np.bool_, f32, f32),
    ],
)
def test_integers_give_f32_and_short_floats_are_computed_in_it(given: type, result: DType, computed: DType):
    with tracing():
        wide, dtype = widened(np.zeros(3, given))
    assert wide.dtype == computed
    assert dtype == result


def test_the_dtype_of_a_function_of_floats():
    assert float_dtype(bf16) == bf16
    assert float_dtype(i32) == f32
