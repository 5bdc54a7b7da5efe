"""Messages for names that are no operators, and for keywords that are no parameters."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

import re

import numpy as np
import pytest

import tessera
from tessera import graph, op
from tessera.core.errors.catalog import ArgumentCount
from tessera.ops.other_names import OTHER_NAMES, operator_hint


def test_what_is_recommended_exists():
    for remedy in OTHER_NAMES.values():
        assert [name for name in re.findall(r"op\.(\w+)", remedy) if name not in op.__all__] == []
    assert [name for name in OTHER_NAMES if name in op.__all__] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("swish", ": write op.silu(x)"), ("cat", ": write op.concat([x, y], axis)"),
        ("sofmax", ": did you mean op.softmax?"), ("layernrm", ": did you mean op.layernorm?"), ("qqq", ""),
    ],
)  # fmt: skip
def test_names_that_are_no_operators(name: str, hint: str):
    assert operator_hint(name, op.__all__) == hint
    with pytest.raises(AttributeError, match=re.escape(f"tessera.op has no operator {name!r}{hint}")):
        getattr(op, name)
    assert not hasattr(op, name)


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [("dim", "did you mean axis=?"), ("keepdim", "did you mean keepdims=?"), ("axi", "did you mean axis=?"),
     ("out", "its parameters are x, axis, keepdims")],
)  # fmt: skip
def test_keywords_that_are_no_parameters(keyword: str, hint: str):
    x = np.ones((2, 3))
    for call in (
        lambda: op.sum(x, **{keyword: 0}),
        lambda: graph.module("f")(lambda v: op.sum(v, **{keyword: 0}))(x),
        lambda: tessera.grad(lambda v: op.sum(v, **{keyword: 0}))(x),
    ):
        with pytest.raises(ArgumentCount, match=f"sum has no parameter {keyword}") as caught:
            call()
        assert hint in str(caught.value)
        assert "test_other_names.py, line" in str(caught.value)


def test_functions_of_any_keywords_take_them():
    def scaled(x: np.ndarray, **numbers: float) -> object:
        return x * numbers["by"]

    np.testing.assert_array_equal(np.asarray(graph.module("f")(scaled)(np.ones(3), by=2.0)), np.full(3, 2.0))
