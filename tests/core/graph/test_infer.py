"""The type of every primitive's result, and what no primitive can have."""

from typing import cast

import pytest

from tessera.core.base.dtypes import bf16, boolean, f16, f32, f64, i32, i64, u32
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Body, Graph, Routine, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, transpose
from tessera.core.graph.infer import IllTyped, infer, infer_all, labels_of, numbers
from tessera.core.program.program import Attribute


def t(*shape: int) -> Tensor:
    return Tensor(f32, shape)


X, Y = Argument(0, f32), Argument(1, f32)
ADD = apply("add", X, Y)
CONTRACT = {"result": (0, 2), "accumulate": "f32"}


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "body", "result"),
    [
        ("map", [t(2, 3), t(3)], {"axes": ((0, 1), (1,)), "shape": (2, 3)}, ADD, t(2, 3)),
        ("map", [t(3, 2), t()], {"axes": ((1, 0), ()), "shape": (2, 3)}, ADD, t(2, 3)),
        ("map", [], {"axes": (), "shape": (4,)}, Literal(1, i64), Tensor(i64, (4,))),
        ("map", [t(2)], {"axes": ((0,),), "shape": (2,)}, apply("cmp", X, X, predicate="lt"), Tensor(boolean, (2,))),
        ("contract", [t(2, 3), t(3, 4)], {**CONTRACT, "labels": ((0, 1), (1, 2))}, None, t(2, 4)),
        ("contract", [Tensor(bf16, (2, 3))] * 2, {**CONTRACT, "labels": ((0, 1), (2, 1))}, None, t(2, 2)),
        ("contract", [t(5)] * 2, {"labels": ((0,), (0,)), "result": (), "accumulate": "f64"}, None, Tensor(f64, ())),
        ("reduce", [t(2, 3, 4)], {"axes": (0, 2), "kind": "max"}, None, t(3)),
        ("reduce", [Tensor(boolean, (2,))], {"axes": (0,), "kind": "min"}, None, Tensor(boolean, ())),
        ("view", [t(2, 3)], {}, transpose((2, 3), (1, 0)), t(3, 2)),
        ("concat", [t(2, 3), t(2, 0), t(2, 1)], {"axis": 1}, None, t(2, 4)),
        ("gather", [t(5, 6), Tensor(i32, (2, 3))], {"axis": 1}, None, t(5, 2, 3)),
        ("gather", [t(5), Tensor(u32, ())], {"axis": 0}, None, t()),
        ("scatter_add", [Tensor(i64, (2, 3)), t(7, 2, 3, 4)], {"axis": 1, "extent": 9}, None, t(7, 9, 4)),
        ("iota", [], {"extent": 5}, None, Tensor(i64, (5,))),
        ("scan", [t(2, 3)], {"axis": 1, "kind": "sum"}, None, t(2, 3)),
        ("random", [Tensor(u32, (2,))], {"shape": (3, 4), "stream": 0}, None, Tensor(u32, (3, 4))),
    ],
)  # fmt: skip
def test_results(op: str, operands: list[Tensor], attributes: dict[str, Attribute], body: Body, result: Tensor):
    assert infer(op, operands, attributes, body) == result


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "body", "message"),
    [
        ("frob", [], {}, None, "no rule"),
        ("map", [t(2)], {"axes": ((0,),), "shape": (2,)}, None, "a map has an expression"),
        ("map", [t(2)], {"axes": ((0,),), "shape": (2,)}, transpose((2,), (0,)), "a map has an expression"),
        ("map", [t(2)], {"axes": (), "shape": (2,)}, X, "one tuple of axes an operand"),
        ("map", [t(2, 2)], {"axes": ((0, 0),), "shape": (2,)}, X, "has not the axes"),
        ("map", [t(2)], {"axes": ((1,),), "shape": (2,)}, X, "does not lie along"),
        ("map", [t(2)], {"axes": ((0,),), "shape": (3,)}, X, "does not lie along"),
        ("map", [t(2)], {"axes": ((0,),), "shape": (2,)}, ADD, "there is no operand 1"),
        ("map", [Tensor(f16, (2,))], {"axes": ((0,),), "shape": (2,)}, X, "operand 0 is f16, the body takes f32"),
        ("map", [t(2)], {"axes": ((0,),), "shape": 2}, X, "not a tuple of integers"),
        ("map", [t(2)], {"axes": 0, "shape": (2,)}, X, "not a tuple"),
        ("contract", [t(2)], {**CONTRACT, "labels": ((0,),)}, None, "two operands"),
        ("contract", [t(2), t(3)], {**CONTRACT, "labels": ((0,), (0,))}, None, "label 0 is 2 and 3"),
        ("contract", [t(2, 2), t(2)], {**CONTRACT, "labels": ((0, 0), (2,))}, None, "has not the labels"),
        ("contract", [t(2), t(3)], {**CONTRACT, "labels": ((0,), (1,))}, None, "the result has not labels"),
        ("contract", [t(2), Tensor(f16, (2,))], {**CONTRACT, "labels": ((0,), (2,))}, None, "of f32 and f16"),
        ("contract", [Tensor(f64, (2,))] * 2, {**CONTRACT, "labels": ((0,), (2,))}, None, "not summed in f32"),
        ("contract", [Tensor(i32, (2,))] * 2, {**CONTRACT, "labels": ((0,), (2,))}, None, "not summed in f32"),
        ("reduce", [t(2)], {"axes": (0,), "kind": "mean"}, None, "no reduction mean"),
        ("reduce", [t(2, 3)], {"axes": (1, 0), "kind": "sum"}, None, "axes"),
        ("reduce", [t(2)], {"axes": (1,), "kind": "sum"}, None, "axes"),
        ("reduce", [Tensor(bf16, (2,))], {"axes": (0,), "kind": "sum"}, None, "bf16 is not reduced"),
        ("reduce", [Tensor(boolean, (2,))], {"axes": (0,), "kind": "sum"}, None, "bool is not summed"),
        ("contract", [Tensor(boolean, (2,))] * 2, {"labels": ((0,), (0,)), "result": (), "accumulate": "bool"}, None,
         "bool is not summed"),
        ("view", [t(2)], {}, X, "a view has an index map"),
        ("view", [t(2, 3)], {}, transpose((2,), (0,)), "one function an axis"),
        ("view", [t(2)], {}, IndexMap((2,), (Affine(0, (Term(1),)),)), "an axis that the result has not"),
        ("concat", [t(2), t(2, 1)], {"axis": 0}, None, "beside"),
        ("concat", [t(2), Tensor(f16, (2,))], {"axis": 0}, None, "beside"),
        ("concat", [t(2, 3), t(3, 3)], {"axis": 1}, None, "along axis 1"),
        ("gather", [t(5), t(2)], {"axis": 0}, None, "gather of"),
        ("gather", [t(5), Tensor(i32, (2,))], {"axis": 1}, None, "gather of"),
        ("scatter_add", [Tensor(i32, (3,)), t(2)], {"axis": 0, "extent": 4}, None, "at i32"),
        ("scan", [t(2)], {"axis": 1, "kind": "sum"}, None, "has no axis 1"),
        ("scan", [Tensor(f16, (2,))], {"axis": 0, "kind": "sum"}, None, "f16 is not scanned"),
        ("random", [t(2)], {"shape": (3,), "stream": 0}, None, "a key is"),
    ],
)  # fmt: skip
def test_what_does_not_fit(op: str, operands: list[Tensor], attributes: dict[str, Attribute], body: Body, message: str):
    with pytest.raises(IllTyped, match=message):
        infer(op, operands, attributes, body)


def test_attributes_of_numbers():
    assert numbers((1, 2)) == (1, 2)
    assert labels_of(((1,), ())) == ((1,), ())
    with pytest.raises(IllTyped, match="not a tuple of integers"):
        numbers(("a",))
    with pytest.raises(IllTyped, match="not a tuple"):
        labels_of(3)


def test_calls_have_the_types_that_their_routine_tells():
    routine = Routine("split", types=lambda types, options: [types[0]] * cast("int", options["parts"]))
    assert infer_all("call", [t(3)], {"parts": 2}, routine) == (t(3), t(3))
    assert infer_all("reduce", [t(3)], {"axes": (0,), "kind": "sum"}, None) == (t(),)


def test_calls_that_do_not_fit():
    def refuses(types: object, options: object) -> list[Tensor]:
        raise ValueError("not square")

    for body, message in (
        (None, "a call has a routine"),
        (Routine("f"), "f does not say what it returns"),
        (Routine("f", types=refuses), "not square"),
        (Routine("f", definition=Graph("g", (Value(t(4)),), (), ())), "f is defined for other operands"),
    ):
        with pytest.raises(IllTyped, match=message):
            infer_all("call", [t(3)], {}, body)
