"""Infer the type of a node's result from its operands, attributes and body: what the builder and the verifier share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from tessera.core.base.dtypes import BY_NAME, boolean, f64, i64, u32
from tessera.core.graph.bodies import counts, stacked
from tessera.core.graph.expr import Argument, Expr, walk
from tessera.core.graph.graph import Body, Graph, Routine, Tensor
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.spec import COLLECTIVES, REDUCTIONS
from tessera.core.program.program import Attribute

Attributes: TypeAlias = Mapping[str, Attribute]
Types: TypeAlias = Sequence[Tensor]
Numbers: TypeAlias = tuple[int, ...]


_INTEGERS: Final = frozenset((int, bool))


class IllTyped(ValueError):
    """A node that does not fit the table of primitives."""


def infer(op: str, operands: Types, attributes: Attributes, body: Body) -> Tensor:
    """Return the type of the only result of a primitive.

    Raises IllTyped for operands, attributes or a body that the primitive cannot have.
    """
    if op not in _RULES:
        raise IllTyped(f"{op} has no rule for its type")
    return _RULES[op](operands, attributes, body)


def infer_all(op: str, operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    """Return the types of all results of a primitive; what `infer` gives where there is one.  Raises IllTyped."""
    if op in _SEVERAL:
        return _SEVERAL[op](operands, attributes, body)
    return (infer(op, operands, attributes, body),)


def numbers(value: Attribute) -> Numbers:
    """Return an attribute that is a tuple of integers."""
    if type(value) is tuple and _INTEGERS.issuperset(map(type, value)):  # nearly always: every pass asks
        return cast("Numbers", value)
    if not isinstance(value, tuple) or not all(isinstance(each, int) for each in value):
        raise IllTyped(f"{value!r} is not a tuple of integers")
    return cast("Numbers", value)


def labels_of(value: Attribute) -> tuple[Numbers, ...]:
    """Return an attribute that is a tuple of integers for each operand."""
    if not isinstance(value, tuple):
        raise IllTyped(f"{value!r} is not a tuple")
    return tuple(numbers(each) for each in value)


def _require(holds: bool, message: str, *parts: object) -> None:
    """Raise IllTyped unless something holds; parts: what is put into the message, where one is needed."""
    if not holds:
        raise IllTyped(message.format(*parts) if parts else message)


def _map(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    shape, axes = numbers(attributes["shape"]), labels_of(attributes["axes"])
    _require(body is not None and not isinstance(body, IndexMap) and hasattr(body, "dtype"), "a map has an expression")
    expr = cast("Expr", body)
    _require(len(axes) == len(operands), "one tuple of axes an operand")
    for operand, places in zip(operands, axes, strict=True):
        _require(len(set(places)) == len(places) == len(operand.shape), "{} has not the axes {}", operand, places)
        for size, place in zip(operand.shape, places, strict=True):
            _require(0 <= place < len(shape) and size == shape[place], "{} does not lie along {}", operand, places)
    for each in walk(expr):
        if isinstance(each, Argument):
            _require(each.number < len(operands), "there is no operand {}", each.number)
            found = operands[each.number].dtype
            _require(found == each.dtype, "operand {} is {}, the body takes {}", each.number, found, each.dtype)
    return Tensor(expr.dtype, shape)


def _contract(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    _require(len(operands) == 2, "a contraction has two operands")
    labels, result = labels_of(attributes["labels"]), numbers(attributes["result"])
    extents: dict[int, int] = {}
    for operand, mine in zip(operands, labels, strict=True):
        _require(len(set(mine)) == len(mine) == len(operand.shape), "{} has not the labels {}", operand, mine)
        for label, size in zip(mine, operand.shape, strict=True):
            _require(extents.setdefault(label, size) == size, "label {} is {} and {}", label, extents[label], size)
    _require(len(set(result)) == len(result) and set(result) <= set(extents), "the result has not labels {}", result)
    left, right = operands
    _require(left.dtype == right.dtype, "a contraction of {} and {}", left.dtype, right.dtype)
    _require(left.dtype != boolean, "bool is not summed: convert it")
    accumulate = BY_NAME[str(attributes["accumulate"])]
    _require(
        accumulate.bits >= left.dtype.bits and accumulate.is_float == left.dtype.is_float,
        "{} is not summed in {}",
        left.dtype,
        accumulate,
    )
    return Tensor(accumulate, tuple(extents[label] for label in result))


def _reduce(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (operand,) = operands
    axes = numbers(attributes["axes"])
    _require(attributes["kind"] in REDUCTIONS, "there is no reduction {}", attributes["kind"])
    _require(list(axes) == sorted(set(axes)) and all(0 <= a < len(operand.shape) for a in axes), "axes {}", axes)
    _require(not operand.dtype.is_float or operand.dtype.bits >= 32, "{} is not reduced: convert it", operand.dtype)
    _require(operand.dtype != boolean or attributes["kind"] != "sum", "bool is not summed: convert it")
    return Tensor(operand.dtype, tuple(size for axis, size in enumerate(operand.shape) if axis not in axes))


def _view(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del attributes
    (operand,) = operands
    _require(isinstance(body, IndexMap), "a view has an index map")
    index_map = cast("IndexMap", body)
    _require(len(index_map.axes) == len(operand.shape), "one function an axis of the operand")
    used = [term.axis for affine in index_map.axes for term in affine.terms]
    _require(all(0 <= axis < len(index_map.shape) for axis in used), "an axis that the result has not")
    return Tensor(operand.dtype, index_map.shape)


def _concat(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    axis = cast("int", attributes["axis"])
    first = operands[0]
    for each in operands:
        _require(each.dtype == first.dtype and len(each.shape) == len(first.shape), "{} beside {}", first, each)
        same = all(a == b for n, (a, b) in enumerate(zip(each.shape, first.shape, strict=True)) if n != axis)
        _require(same, "{} beside {} along axis {}", first, each, axis)
    total = sum(each.shape[axis] for each in operands)
    return Tensor(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _gather(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    table, index = operands
    axis = cast("int", attributes["axis"])
    _require(index.dtype.is_integer and 0 <= axis < len(table.shape), "gather of {} by {} along {}", table, index, axis)
    return Tensor(table.dtype, (*table.shape[:axis], *index.shape, *table.shape[axis + 1 :]))


def _scatter_add(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    index, values = operands
    axis, extent, rank = cast("int", attributes["axis"]), cast("int", attributes["extent"]), len(index.shape)
    _require(index.dtype.is_integer and values.shape[axis : axis + rank] == index.shape, "{} at {}", values, index)
    return Tensor(values.dtype, (*values.shape[:axis], extent, *values.shape[axis + rank :]))


def _iota(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del operands, body
    return Tensor(i64, (cast("int", attributes["extent"]),))


def _scan(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (operand,) = operands
    _require(
        0 <= cast("int", attributes["axis"]) < len(operand.shape), "{} has no axis {}", operand, attributes["axis"]
    )
    _require(not operand.dtype.is_float or operand.dtype in (BY_NAME["f32"], f64), "{} is not scanned", operand.dtype)
    return operand


def _random(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (key,) = operands
    _require(key == Tensor(u32, (2,)), "a key is u32[2], not {}", key)
    return Tensor(u32, numbers(attributes["shape"]))


def _collective(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    """Infer the part of one device of what a collective makes."""
    del body
    (operand,) = operands
    kind, parts = str(attributes["kind"]), cast("int", attributes["parts"])
    _require(kind in COLLECTIVES and parts >= 1, f"there is no collective {kind} of {parts} parts")
    shape = list(operand.shape)
    for name in COLLECTIVES[kind]:
        dim = cast("int", attributes[name])
        _require(0 <= dim < len(shape), f"{operand} has no axis {dim}")
        if name == "join":
            shape[dim] *= parts
        else:
            _require(shape[dim] % parts == 0, f"axis {dim} of {operand} is not cut into {parts}")
            shape[dim] //= parts
    return Tensor(operand.dtype, tuple(shape))


def _call(operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    _require(isinstance(body, Routine), "a call has a routine")
    routine = cast("Routine", body)
    if routine.definition is not None:
        given = tuple(value.type for value in routine.definition.inputs)
        _require(given == tuple(operands), "{} is defined for other operands", routine.name)
        return tuple(value.type for value in routine.definition.outputs)
    _require(routine.types is not None, "{} does not say what it returns", routine.name)
    assert routine.types is not None
    try:
        return tuple(routine.types(operands, attributes))
    except ValueError as wrong:
        raise IllTyped(str(wrong)) from wrong


def _loop(operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    (trip,) = _graphs(body, 1)
    constants, carried = counts(attributes)
    trips, end = cast("int", attributes["trips"]), constants + carried
    _require(trips >= 1, "a loop has at least one trip")
    _require(min(constants, carried) >= 0 and end <= len(operands), "a loop has not so many constants and carries")
    for each in operands[end:]:
        _require(each.shape[:1] == (trips,), "{} is not {} slices", each, trips)
    slices = [Tensor(each.dtype, each.shape[1:]) for each in operands[end:]]
    _takes(trip, (*operands[:end], *slices))
    made = _made(trip)
    _require(made[:carried] == tuple(operands[constants:end]), "a trip does not return the types of its carries")
    return (*made[:carried], *(stacked(each, trips) for each in made[carried:]))


def _while(operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    condition, trip = _graphs(body, 2)
    constants, carried = counts(attributes)
    _require(min(constants, carried) >= 0, "a while has not so many constants and carries")
    _require(len(operands) == constants + carried, "a while has constants and carries, and nothing else")
    for each in (condition, trip):
        _takes(each, operands)
    _require(_made(condition) == (Tensor(boolean, ()),), "a condition is one bool")
    _require(_made(trip) == tuple(operands[constants:]), "a trip does not return the types of its carries")
    return _made(trip)


def _branch(operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    del attributes
    holds, fails = _graphs(body, 2)
    _require(tuple(operands[:1]) == (Tensor(boolean, ()),), "a branch has a bool")
    for each in (holds, fails):
        _takes(each, operands[1:])
    _require(_made(holds) == _made(fails), "branches return the same types")
    return _made(holds)


def _graphs(body: Body, count: int) -> "tuple[Graph, ...]":
    _require(isinstance(body, tuple) and len(body) == count, "the body is {} graphs", count)
    return cast("tuple[Graph, ...]", body)


def _takes(graph: Graph, types: Types) -> None:
    given = [value.type for value in graph.inputs]
    _require(given == list(types), "{} takes {}, and is given {}", graph.name, _listed(given), _listed(types))


def _made(graph: Graph) -> tuple[Tensor, ...]:
    return tuple(value.type for value in graph.outputs)


def _listed(types: Types) -> str:
    return ", ".join(map(str, types)) or "nothing"


_SEVERAL: Final[Mapping[str, Callable[[Types, Attributes, Body], tuple[Tensor, ...]]]] = {
    "call": _call, "loop": _loop, "while": _while, "branch": _branch,
}  # fmt: skip

_RULES: Final[Mapping[str, Callable[[Types, Attributes, Body], Tensor]]] = {
    "map": _map, "contract": _contract, "reduce": _reduce, "view": _view, "concat": _concat, "gather": _gather,
    "scatter_add": _scatter_add, "iota": _iota, "scan": _scan, "random": _random, "collective": _collective,
}  # fmt: skip
