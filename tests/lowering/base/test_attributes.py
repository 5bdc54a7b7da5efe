"""Plain values survive the way into attributes and back."""

import pytest

from tessera.core.mlir import ir
from tessera.lowering.base.attributes import dictionary, flags, from_attribute, integers, number_of, to_attribute


@pytest.mark.parametrize("value", [None, True, False, 3, -1, 2.5, "text", "", (), (1, "n", (2.0, None)), (("n", 64),)])
def test_round_trip(value: bool | float | str | tuple[int | str | tuple[float | str, int | None], ...] | None):
    again = from_attribute(to_attribute(value))
    assert again == value
    assert type(again) is type(value)


def test_arrays():
    assert str(integers([1, 2])) == "array<i64: 1, 2>"
    assert str(flags([True, False])) == "array<i1: true, false>"
    assert from_attribute(integers([1, 2])) == (1, 2)
    assert from_attribute(flags([True, False])) == (True, False)


def test_dictionaries():
    assert str(dictionary({"kind": "lanes", "extents": ("n", 4)})) == '{extents = ["n", 4], kind = "lanes"}'


def test_other_attributes_are_refused():
    with pytest.raises(ValueError, match="no plain value"):
        from_attribute(ir.Attribute.parse("#arith.fastmath<fast>"))


@pytest.mark.usefixtures("mlir")
@pytest.mark.parametrize(("text", "held"), [("true", True), ("3 : i64", 3), ("1.5 : f16", 1.5)])
def test_the_number_of_an_attribute(text: str, held: object):
    assert number_of(ir.Attribute.parse(text)) == held


@pytest.mark.usefixtures("mlir")
def test_a_text_is_no_number():
    with pytest.raises(ValueError, match='no number: the attribute "text"'):
        number_of(ir.Attribute.parse('"text"'))
