"""Nodes that hold graphs: how operands are arranged, and which bodies they cannot have."""

import numpy as np
import pytest

from tessera.core.base.dtypes import DType, boolean, f16, f32, i64
from tessera.core.graph.bodies import Parts, parts, stacked, steps, trips
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Body, Graph, Node, Tensor, Value
from tessera.core.graph.infer import IllTyped, infer_all
from tessera.core.graph.verify import verify
from tessera.core.program.program import Attribute
from tessera.runtime.interpret.graph import evaluate

LOOP: dict[str, Attribute] = {"trips": 4, "constants": 1, "carried": 1, "reverse": False, "recompute": False}


def t(*shape: int, dtype: DType = f32) -> Tensor:
    return Tensor(dtype, shape)


def body(inputs: list[Tensor], outputs: list[Tensor]) -> Graph:
    builder = GraphBuilder()
    made = [builder.full(0, kind.dtype, kind.shape) for kind in outputs]
    return builder.finish("body", [Value(kind) for kind in inputs], made)


def node(attributes: dict[str, Attribute], count: int) -> Node:
    return Node("loop", tuple(Value(t(4)) for _ in range(count)), (), attributes)


def test_operands_are_constants_carries_and_stacks():
    assert parts(node(LOOP, 4), "abcd") == Parts(("a",), ("b",), ("c", "d"))
    assert parts(node(LOOP, 4), "abcd").all == ("a", "b", "c", "d")
    assert parts(node({**LOOP, "constants": 0, "carried": 0}, 1), "a") == Parts((), (), ("a",))
    assert stacked(t(2, 3), 5) == t(5, 2, 3)


def test_slices_are_taken_from_either_end():
    assert trips(node(LOOP, 2)) == 4
    assert list(steps(node(LOOP, 2))) == [0, 1, 2, 3]
    assert list(steps(node({**LOOP, "reverse": True}, 2))) == [3, 2, 1, 0]


STEP = body([t(3), t(2), t(5)], [t(2), t(7), t()])
BOOL = t(dtype=boolean)


def test_types_of_results():
    assert infer_all("loop", [t(3), t(2), t(4, 5)], LOOP, (STEP,)) == (t(2), t(4, 7), t(4))
    again = body([t(3), t(2)], [t(2)])
    assert infer_all("while", [t(3), t(2)], LOOP, (body([t(3), t(2)], [BOOL]), again)) == (t(2),)
    assert infer_all("branch", [BOOL, t(3), t(2)], {}, (again, again)) == (t(2),)


@pytest.mark.parametrize(
    ("op", "operands", "bodies", "changes", "message"),
    [
        ("loop", [t(3), t(2), t(4, 5)], (), {}, "the body is 1 graphs"),
        ("loop", [t(3), t(2), t(4, 5)], (STEP,), {"trips": 0}, "at least one trip"),
        ("loop", [t(3), t(2), t(4, 5)], (STEP,), {"carried": 3}, "not so many constants and carries"),
        ("loop", [t(3), t(2), t(4, 5)], (STEP,), {"constants": -1}, "not so many constants and carries"),
        ("loop", [t(3), t(2), t(3, 5)], (STEP,), {}, r"f32\[3, 5\] is not 4 slices"),
        ("loop", [t(3), t(2), t()], (STEP,), {}, "is not 4 slices"),
        ("loop", [t(3), t(2), t(4, 6)], (STEP,), {}, r"body takes .*f32\[5\], and is given .*f32\[6\]"),
        ("loop", [t(3), t(2)], (body([t(3), t(2)], [t(3)]),), {}, "does not return the types of its carries"),
        ("while", [t(3), t(2)], (STEP,), {}, "the body is 2 graphs"),
        ("while", [t(3)], (STEP, STEP), {}, "constants and carries, and nothing else"),
        ("while", [t(3), t(2)], (body([t(3), t(2)], [t()]), body([t(3), t(2)], [t(2)])), {}, "a condition is one bool"),
        ("while", [t(3), t(2)], (body([t(3), t(2)], [BOOL]), body([t(3), t(2)], [t(2, dtype=f16)])), {}, "its carries"),
        ("branch", [t(3)], (body([], [t(2)]), body([], [t(2)])), {}, "a branch has a bool"),
        ("branch", [], (body([], [t(2)]), body([], [t(2)])), {}, "a branch has a bool"),
        ("branch", [BOOL], (body([], [t(2)]), body([], [t(3)])), {}, "branches return the same types"),
        ("branch", [BOOL, t(1)], (body([t(1)], [t(2)]), body([], [t(2)])), {}, r"is given f32\[1\]"),
    ],
)  # fmt: skip
def test_what_they_cannot_be(
    op: str, operands: list[Tensor], bodies: Body, changes: dict[str, Attribute], message: str
):
    with pytest.raises(IllTyped, match=message):
        infer_all(op, operands, {**LOOP, **changes}, bodies)


def test_the_verifier_goes_into_bodies():
    x = Value(t(2), "x")
    lost = Value(t(2))
    wrong = Graph("wrong", (x,), (), (lost,))
    builder, carry = GraphBuilder(), Value(t(2))
    (made,) = builder.add_all("loop", [carry], (wrong,), **{**LOOP, "constants": 0})
    with pytest.raises(IllTyped, match="wrong: an output that nothing makes"):
        verify(builder.finish("g", [carry], [made]))


def test_bodies_are_read_by_the_oracle_alone_in_order():
    """One operand is an index: what a trip sees is its own slice."""
    builder = GraphBuilder()
    carry, item = Value(t(dtype=i64)), Value(t(dtype=i64))
    a, b = Argument(0, i64), Argument(1, i64)
    total = builder.elementwise(apply("add", apply("mul", a, Literal(10, i64)), b), [carry, item])
    step = builder.finish("step", [carry, item], [total])
    for reverse, want in ((False, 1234), (True, 4321)):
        outer = GraphBuilder()
        start, items = Value(t(dtype=i64)), Value(t(4, dtype=i64))
        attributes: dict[str, Attribute] = {**LOOP, "constants": 0, "reverse": reverse}
        (last,) = outer.add_all("loop", [start, items], (step,), **attributes)
        graph = outer.finish("g", [start, items], [last])
        verify(graph)
        (got,) = evaluate(graph, [np.array(0), np.array([1, 2, 3, 4])])
        assert got == want
