"""Attributes of operations as numbers."""

from collections.abc import Callable

import pytest

from tessera.core.program.program import Op
from tessera.runtime.interpret.operands import integer, integer_or_none, integers, number

OP = Op("load", attributes={"axis": 1, "all": None, "extents": (2, 3), "mixed": (2, "n"), "value": 0.5, "kind": "sum"})


def test_attributes_are_given_as_they_are():
    assert integer(OP, "axis") == 1
    assert integer_or_none(OP, "axis") == 1
    assert integer_or_none(OP, "all") is None
    assert integers(OP, "extents") == (2, 3)
    assert (number(OP, "value"), number(OP, "axis")) == (0.5, 1)


@pytest.mark.parametrize(
    ("read", "name"), [(integer, "kind"), (integer, "value"), (integers, "axis"), (integers, "mixed"), (number, "all")]
)
def test_an_attribute_of_another_type_is_named(read: Callable[[Op, str], object], name: str):
    with pytest.raises(TypeError, match=f"load has {name}="):
        read(OP, name)
