"""Numbers of the host: Python's arithmetic is noted, and what needs the number is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import BY_NAME, bf16
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Number
from tessera.graphs.operands.host_number import HostNumber, NeedsNumber, NumberInput, is_host_number

NUMBERS = st.integers(-5, 5) | st.floats(-4.0, 4.0)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
}  # fmt: skip


def value(number: object, *numbers: float) -> Number:
    assert is_host_number(number)
    return number.evaluate(numbers)


@pytest.mark.parametrize("name", OPERATIONS)
@given(one=NUMBERS, other=NUMBERS)
def test_arithmetic_is_pythons(name: str, one: float, other: float):
    operation = OPERATIONS[name]
    if name == "div" and (one == 0 or other == 0):
        return
    a, b = HostNumber.argument(0, type(one)), HostNumber.argument(1, type(other))
    want = operation(one, other)
    for number in (operation(a, b), operation(a, other), operation(one, b)):
        got = value(number, one, other)
        assert type(got) is type(want) is number.class_
        assert (got, math.copysign(1, got)) == (want, math.copysign(1, want))


def test_powers_whose_type_is_certain():
    beta: Any = HostNumber.argument(0, float)
    t: Any = HostNumber.argument(1, int)
    assert value(beta**t, 0.9, 7) == 0.9**7
    assert value(beta**2, -0.9, 7) == 0.81
    assert value(0.99**t, 0.9, 7) == 0.99**7
    assert value(0.5**beta, 0.9, 7) == 0.5**0.9
    assert value(1 - beta**t, 0.9, 7) == 1 - 0.9**7
    for refused in (lambda: t**t, lambda: beta**0.5, lambda: 2**t, lambda: (-0.5) ** beta, lambda: beta**beta):
        with pytest.raises(NeedsNumber):
            refused()


def test_signs():
    number = HostNumber.argument(0, float)
    assert (value(-number, 2.5), value(+number, 2.5), value(abs(number), -2.5)) == (-2.5, 2.5, 2.5)


def test_it_is_an_instance_of_its_class():
    assert isinstance(HostNumber.argument(0, float), float)
    assert isinstance(HostNumber.argument(0, int), int)
    assert not isinstance(HostNumber.argument(0, int), float)
    assert not is_host_number(1.0)


NEEDS: dict[str, Callable[[Any], object]] = {
    "bool": bool, "float": float, "int": int, "str": str, "repr": repr, "hash": hash, "round": round, "floor": math.floor,
    "format": lambda x: f"{x:.2f}", "index": lambda x: [1, 2][x], "range": range, "eq": lambda x: x == 0, "ne": lambda x: x != 0,
    "lt": lambda x: x < 0, "reflected": lambda x: x >= 0, "in": lambda x: x in (1, 2), "key": lambda x: {x: 1},
    "floordiv": lambda x: x // 2, "mod": lambda x: 5 % x, "sqrt": math.sqrt, "f32": np.float32, "array": np.asarray,
    "scalar": lambda x: np.float64(2) * x, "elements": lambda x: np.ones(3) * x, "left": lambda x: x * np.ones(3), "max": lambda x: max(x, 1),
    "bools": lambda x: x + True, "abs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize("kind", [int, float])
def test_what_needs_the_number_is_refused(name: str, kind: type):
    """By NeedsNumber, or by Python where it asks for an integer: no answer, whatever the number is."""
    with pytest.raises((NeedsNumber, TypeError)):
        NEEDS[name](HostNumber.argument(0, kind))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@given(number=st.floats(width=64) | st.integers(-(2**70), 2**70))
def test_elements_are_rounded_once(name: str, number: float):
    dtype = BY_NAME[name]
    element = NumberInput(HostNumber.argument(0, type(number)), dtype).element([number])
    with np.errstate(over="ignore"):
        want = np.asarray(float(number)).astype(dtype.numpy)
    assert (element.dtype, element.shape, element.tobytes()) == (dtype.numpy, (), want.tobytes())


def test_integers_beyond_all_floats():
    with pytest.raises(OperandMismatch, match="an integer of 2001 bits is no bf16"):
        NumberInput(HostNumber.argument(0, int), bf16).element([1 << 2000])
