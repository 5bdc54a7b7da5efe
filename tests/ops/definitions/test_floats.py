"""Operands of functions that need floats."""

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i32
from tessera.graphs.trace import tracing
from tessera.ops.definitions.floats import float_dtype, widened, widened_pair


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


@pytest.mark.parametrize(
    ("a", "b", "result", "computed"),
    [
        (np.zeros(2, np.float16), np.zeros(2, np.float32), f32, f32),
        (np.zeros(2, np.float16), 0.1, f16, f32),
        (0.1, np.zeros(2), f64, f64),
        (np.zeros(2, np.int32), 3, f32, f32),
        (np.zeros(2, np.int32), np.zeros(2, np.float64), f64, f64),
        (True, 2.5, f32, f32),
    ],
)
def test_two_operands_meet(a: object, b: object, result: DType, computed: DType):
    with tracing():
        x, y, dtype = widened_pair(a, b)
    assert (x.dtype, y.dtype, dtype) == (computed, computed, result)
