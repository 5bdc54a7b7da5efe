"""The smallest kernel there is, for the worker to practise on: `y[i] = a * x[i]` where `i < n`."""

from tessera.core.base import dtypes
from tessera.core.program.program import Block, Domain, Op, Parameter, Program, Symbol, Value
from tessera.core.program.types import Array, Scalar


def trivial_program() -> Program:
    """Return a program that touches what nearly every kernel needs: ids, a branch, loads, stores, arithmetic."""
    x, y = (Value(Array(dtypes.f32, ("n",)), name) for name in "xy")
    a, left, product = (Value(Scalar(dtypes.f32)) for _ in range(3))
    index, extent = (Value(Scalar(dtypes.i64)) for _ in range(2))
    inside = Value(Scalar(dtypes.boolean))
    then = Block(
        (),
        (
            Op("read", (x, index), (left,), {"cache": ""}),
            Op("mul", (a, left), (product,)),
            Op("write", (y, product, index), (), {"cache": ""}),
            Op("yield"),
        ),
    )
    body = Block(
        (),
        (
            Op("id", (), (index,), {"of": "thread", "axis": None}),
            Op("dim", (), (extent,), {"symbol": "n"}),
            Op("cmp", (index, extent), (inside,), {"predicate": "lt"}),
            Op("if", (inside,), (), {}, (then, Block((), (Op("yield"),)))),
            Op("yield"),
        ),
    )
    parameters = (Parameter("x", x), Parameter("y", y, mutable=True), Parameter("a", a))
    return Program("warm", parameters, body, (Symbol("n", 0, 0),), Domain("lanes", ("n",)))
