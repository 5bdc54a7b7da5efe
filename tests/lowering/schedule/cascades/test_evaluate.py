"""Values of expressions over arrays."""

import math

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, boolean, f32, f64, i32, i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, cast
from tessera.lowering.schedule.cascades.evaluate import evaluate

X, Y = Argument(0, f64), Argument(1, f64)
I, J = Argument(0, i64), Argument(1, i64)


@pytest.mark.parametrize(("opcode", "want"), [
    ("exp", math.exp), ("exp2", lambda v: 2.0**v), ("log", math.log), ("log2", math.log2), ("sqrt", math.sqrt),
    ("rsqrt", lambda v: 1 / math.sqrt(v)), ("sin", math.sin), ("cos", math.cos), ("tanh", math.tanh), ("erf", math.erf),
    ("floor", math.floor), ("ceil", math.ceil), ("neg", lambda v: -v), ("abs", abs),
])  # fmt: skip
def test_functions_of_one_number(opcode: str, want: object):
    values = np.array([0.3, 1.7, 2.0])
    got = evaluate(Apply(opcode, (X,), f64), [values])
    assert np.allclose(got, [want(float(value)) for value in values], rtol=1e-14)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]


@pytest.mark.parametrize(("opcode", "want"), [
    ("add", 9.5), ("sub", 5.5), ("mul", 15.0), ("div", 3.75), ("floordiv", 3.0), ("mod", 1.5), ("min", 2.0),
    ("max", 7.5), ("pow", 56.25),
])  # fmt: skip
def test_functions_of_two_numbers(opcode: str, want: float):
    assert evaluate(Apply(opcode, (X, Y), f64), [np.array(7.5), np.array(2.0)]) == want


@pytest.mark.parametrize(("opcode", "a", "b", "want"), [
    ("floordiv", -7, 2, -4), ("floordiv", 7, 0, 0), ("mod", -7, 3, 2), ("mod", 7, 0, 0), ("and", 6, 3, 2),
    ("or", 6, 3, 7), ("xor", 6, 3, 5), ("shl", 3, 2, 12), ("shr", 12, 2, 3),
])  # fmt: skip
def test_integers(opcode: str, a: int, b: int, want: int):
    got = evaluate(Apply(opcode, (I, J), i64), [np.array(a), np.array(b)])
    assert (got.dtype, got) == (np.int64, want)


@pytest.mark.parametrize(("predicate", "want"), [
    ("lt", [True, False, False]), ("le", [True, True, False]), ("gt", [False, False, True]),
    ("ge", [False, True, True]), ("eq", [False, True, False]), ("ne", [True, False, True]),
])  # fmt: skip
def test_comparisons_and_selections(predicate: str, want: list[bool]):
    flag = Apply("cmp", (X, Literal(1.0, f64)), boolean, predicate)
    values = np.array([0.0, 1.0, 2.0])
    assert evaluate(flag, [values]).tolist() == want
    assert evaluate(Apply("not", (flag,), boolean), [values]).tolist() == [not each for each in want]
    chosen = Apply("select", (flag, X, Literal(-1.0, f64)), f64)
    assert evaluate(chosen, [values]).tolist() == np.where(want, values, -1.0).tolist()


@pytest.mark.parametrize(("expr", "dtype"), [(cast(X, f32), f32), (cast(X, i32), i32), (cast(cast(X, f32), f64), f64)])
def test_casts(expr: Expr, dtype: DType):
    got = evaluate(expr, [np.array([1.1, -2.7])])
    assert got.dtype == dtype.numpy
    want = np.array([1.1, -2.7]).astype(np.float32 if dtype.is_float else np.int32)
    assert np.array_equal(got, want.astype(dtype.numpy))


def test_infinities_are_values():
    assert evaluate(Apply("log", (X,), f64), [np.array(0.0)]) == -np.inf
    assert np.isnan(evaluate(Apply("sub", (X, X), f64), [np.array(np.inf)]))
    assert evaluate(Apply("fma", (X, X, X), f64), [np.array(3.0)]) == 12.0
