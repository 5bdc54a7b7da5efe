"""Products apart by the axes of their parts, divisions once a row."""

from tessera.core.base.dtypes import f32
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.lowering.schedule.cascades.atom_products import divided_once, parted

A, B, C = (Argument(number, f32) for number in range(3))


def test_parts_with_columns_are_apart():
    body = apply("mul", apply("mul", A, B), apply("mul", Literal(1.0, f32), C))
    rows, columns = parted(body, lambda number: number == 1)
    assert rows in (apply("mul", A, C), apply("mul", C, A))
    assert columns == B


def test_a_part_that_is_one_is_none():
    assert parted(Literal(1.0, f32), lambda _: False) == (None, None)
    assert parted(B, lambda number: number == 1) == (None, B)


def test_wide_values_are_multiplied_by_one_reciprocal_a_row():
    assert divided_once(apply("div", A, B), {0}) == apply("mul", A, apply("div", Literal(1.0, f32), B))
    assert divided_once(apply("div", A, B), set()) == apply("div", A, B)
    assert divided_once(apply("div", A, B), {0, 1}) == apply("div", A, B)
