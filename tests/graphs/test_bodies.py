"""Captured bodies: numbers among arrays, what they use of the outside, and places of mistakes."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import numpy as np
import pytest

from tessera.core.base.dtypes import boolean, f16, f32, i64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Tensor
from tessera.graphs.bodies import arrays_in, capture_body, listed, mismatch, place_of
from tessera.graphs.structure import Branch, Leaf
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer, as_tracer


def test_numbers_are_arrays_of_one_element():
    with tracing() as trace:
        found = arrays_in({"a": np.ones(3, "f"), "b": (1, 2.0, True), "c": None}, trace)
        assert found.types == (
            Tensor(f32, (3,)), Tensor(i64, ()), Tensor(f32, ()), Tensor(boolean, ()),
        )  # fmt: skip
        assert found.numbers == {1, 2, 3}
        assert found.put_together("wxyz") == {"a": "w", "b": ("x", "y", "z"), "c": None}
        like = arrays_in((1, 2), trace, [Tensor(f16, ()), Tensor(f16, (3,))])
        assert [each.dtype for each in like.values] == [f16, i64]


def test_what_a_body_uses_of_the_outside_is_captured():
    with tracing() as trace:
        outer = as_tracer(np.ones(3, "f"), trace)
        array = np.zeros(2, "f")
        found = capture_body(
            lambda x, y: (x + outer, y * 2, as_tracer(array)), (Leaf(), Leaf()), [Tensor(f32, (3,))] * 2
        )
        assert found.types == (Tensor(f32, (3,)), Tensor(f32, (3,)), Tensor(f32, (2,)))
        assert isinstance(found.result, Branch)
        first, second = found.captured
        assert isinstance(first, Tracer)
        assert first.value is outer.value
        assert second is array
        others = [trace.input(Tensor(f32, (7,)), "other")]
        graph = found.taking([*found.graph.inputs[2:], *others], 2)
        assert graph.inputs[:2] == found.graph.inputs[2:]
        assert graph.inputs[2] is not others[0]
        assert graph.inputs[3:] == found.graph.inputs[:2]


def test_mistakes_have_the_places_of_both_outputs():
    with tracing():
        one = capture_body(lambda x: x * 2, (Leaf(),), [Tensor(f32, (3,))])
        two = capture_body(lambda x: (x + 1, x * 3), (Leaf(),), [Tensor(f32, (3,))])
    assert place_of(two.graph, 1).line == place_of(one.graph, 0).line + 1
    error = mismatch("they differ", (one.graph, 0), (two.graph, 1), "this one", "make them equal")
    assert isinstance(error, OperandMismatch)
    assert error.span == place_of(one.graph, 0)
    assert [(note.message, note.span) for note in error.notes] == [("this one", place_of(two.graph, 1))]
    assert "x * 2" in str(error)
    assert not mismatch("it differs", (one.graph, 0), None, "", "").notes


@pytest.mark.parametrize(
    ("types", "text"), [((Tensor(f32, (2,)),), "c: f32[2]"), ((), "nothing"), ((Tensor(f32, ()),) * 2, "f32[], f32[]")]
)
def test_types_are_listed_by_name(types: tuple[Tensor, ...], text: str):
    assert listed(Leaf(), types, "c") == text
