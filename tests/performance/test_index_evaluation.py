"""Index arithmetic on tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Op, Value
from tessera.core.program.types import Scalar
from tessera.performance.index_evaluation import MOST, NUMERIC, Table, combine, evaluate, inside

INDEX = Scalar(i64)


def table(*dims: int, values: object) -> Table:
    return Table(dims, np.asarray(values))


def test_tables_of_different_dimensions_meet_in_both():
    a, b = table(0, values=[1, 2, 3]), table(2, values=[10, 20])
    found = combine(np.add, a, b)
    assert found is not None
    assert found.dims == (0, 2)
    np.testing.assert_array_equal(found.values, [[11, 21], [12, 22], [13, 23]])
    swapped = combine(np.subtract, b, a)
    assert swapped is not None
    np.testing.assert_array_equal(swapped.values, [[9, 19], [8, 18], [7, 17]])


def test_too_large_a_table_is_none():
    side = np.arange(1 << 11)
    assert combine(np.add, Table((0,), side), Table((1,), side)) is None
    assert combine(np.add, Table((0,), np.arange(MOST)), table(values=1)) is not None


def operation(opcode: str, *operands: Value, **attributes: str) -> Op:
    return Op(opcode, operands, (Value(INDEX),), attributes)


def test_operations_on_known_numbers():
    a, b, unknown = Value(INDEX), Value(INDEX), Value(INDEX)
    numbers = {a: table(0, values=[4, 7]), b: table(values=3)}
    for op, wanted in (
        (operation("mod", a, b), [1, 1]),
        (operation("floordiv", a, b), [1, 2]),
        (operation("neg", a), [-4, -7]),
        (operation("cmp", a, b, predicate="gt"), [True, True]),
    ):
        evaluate(op, numbers)
        np.testing.assert_array_equal(numbers[op.result].values, wanted)
    for op in (operation("add", a, unknown), operation("shl", a, b), Op("add", (a, b), (Value(Scalar(f32)),))):
        evaluate(op, numbers)
        assert op.result not in numbers


def test_division_by_zero_is_zero():
    for name in ("mod", "floordiv"):
        np.testing.assert_array_equal(NUMERIC[name](np.asarray([5, -5]), np.asarray([0, 0])), [0, 0])


@given(st.integers(-50, 50), st.integers(0, 20), st.integers(0, 40))
def test_elements_inside(start: int, window: int, extent: int):
    wanted = sum(0 <= index < extent for index in range(start, start + window))
    assert inside(table(values=start), window, extent) == wanted
    many = inside(table(3, values=[start, start + 1]), window, extent)
    assert isinstance(many, Table)
    assert many.dims == (3,)
    assert many.values[0] == wanted


@pytest.mark.parametrize(("window", "extent", "wanted"), [(8, 5, 5), (8, 50, 8)])
def test_unknown_places_are_as_good_as_they_can_be(window: int, extent: int, wanted: int):
    assert inside(None, window, extent) == wanted
