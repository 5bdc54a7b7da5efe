"""Infer the type of a node's result from its operands, attributes and body: what the builder and the verifier share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from tessera.core.base.dtypes import BY_NAME, boolean, f64, i64, u32
from tessera.core.graph.expr import Argument, Expr, walk
from tessera.core.graph.graph import Body, Routine, Tensor
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.spec import REDUCTIONS
from tessera.core.program.program import Attribute

Attributes: TypeAlias = Mapping[str, Attribute]
Types: TypeAlias = Sequence[Tensor]
Numbers: TypeAlias = tuple[int, ...]


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
    if not isinstance(value, tuple) or not all(isinstance(each, int) for each in value):
        raise IllTyped(f"{value!r} is not a tuple of integers")
    return cast("Numbers", value)


def labels_of(value: Attribute) -> tuple[Numbers, ...]:
    """Return an attribute that is a tuple of integers for each operand."""
    if not isinstance(value, tuple):
        raise IllTyped(f"{value!r} is not a tuple")
    return tuple(numbers(each) for each in value)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise IllTyped(message)


def _map(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    shape, axes = numbers(attributes["shape"]), labels_of(attributes["axes"])
    _require(body is not None and not isinstance(body, IndexMap) and hasattr(body, "dtype"), "a map has an expression")
    expr = cast("Expr", body)
    _require(len(axes) == len(operands), "one tuple of axes an operand")
    for operand, places in zip(operands, axes, strict=True):
        _require(len(set(places)) == len(places) == len(operand.shape), f"{operand} has not the axes {places}")
        for size, place in zip(operand.shape, places, strict=True):
            _require(0 <= place < len(shape) and size == shape[place], f"{operand} does not lie along {places}")
    for each in walk(expr):
        if isinstance(each, Argument):
            _require(each.number < len(operands), f"there is no operand {each.number}")
            found = operands[each.number].dtype
            _require(found == each.dtype, f"operand {each.number} is {found}, the body takes {each.dtype}")
    return Tensor(expr.dtype, shape)


def _contract(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    _require(len(operands) == 2, "a contraction has two operands")
    labels, result = labels_of(attributes["labels"]), numbers(attributes["result"])
    extents: dict[int, int] = {}
    for operand, mine in zip(operands, labels, strict=True):
        _require(len(set(mine)) == len(mine) == len(operand.shape), f"{operand} has not the labels {mine}")
        for label, size in zip(mine, operand.shape, strict=True):
            _require(extents.setdefault(label, size) == size, f"label {label} is {extents[label]} and {size}")
    _require(len(set(result)) == len(result) and set(result) <= set(extents), f"the result has not labels {result}")
    left, right = operands
    _require(left.dtype == right.dtype, f"a contraction of {left.dtype} and {right.dtype}")
    _require(left.dtype != boolean, "bool is not summed: convert it")
    accumulate = BY_NAME[str(attributes["accumulate"])]
    _require(
        accumulate.bits >= left.dtype.bits and accumulate.is_float == left.dtype.is_float,
        f"{left.dtype} is not summed in {accumulate}",
    )
    return Tensor(accumulate, tuple(extents[label] for label in result))


def _reduce(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (operand,) = operands
    axes = numbers(attributes["axes"])
    _require(attributes["kind"] in REDUCTIONS, f"there is no reduction {attributes['kind']}")
    _require(list(axes) == sorted(set(axes)) and all(0 <= a < len(operand.shape) for a in axes), f"axes {axes}")
    _require(not operand.dtype.is_float or operand.dtype.bits >= 32, f"{operand.dtype} is not reduced: convert it")
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
        _require(each.dtype == first.dtype and len(each.shape) == len(first.shape), f"{first} beside {each}")
        same = all(a == b for n, (a, b) in enumerate(zip(each.shape, first.shape, strict=True)) if n != axis)
        _require(same, f"{first} beside {each} along axis {axis}")
    total = sum(each.shape[axis] for each in operands)
    return Tensor(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _gather(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    table, index = operands
    axis = cast("int", attributes["axis"])
    _require(index.dtype.is_integer and 0 <= axis < len(table.shape), f"gather of {table} by {index} along {axis}")
    return Tensor(table.dtype, (*table.shape[:axis], *index.shape, *table.shape[axis + 1 :]))


def _scatter_add(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    index, values = operands
    axis, extent, rank = cast("int", attributes["axis"]), cast("int", attributes["extent"]), len(index.shape)
    _require(index.dtype.is_integer and values.shape[axis : axis + rank] == index.shape, f"{values} at {index}")
    return Tensor(values.dtype, (*values.shape[:axis], extent, *values.shape[axis + rank :]))


def _iota(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del operands, body
    return Tensor(i64, (cast("int", attributes["extent"]),))


def _scan(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (operand,) = operands
    _require(0 <= cast("int", attributes["axis"]) < len(operand.shape), f"{operand} has no axis {attributes['axis']}")
    _require(not operand.dtype.is_float or operand.dtype in (BY_NAME["f32"], f64), f"{operand.dtype} is not scanned")
    return operand


def _random(operands: Types, attributes: Attributes, body: Body) -> Tensor:
    del body
    (key,) = operands
    _require(key == Tensor(u32, (2,)), f"a key is u32[2], not {key}")
    return Tensor(u32, numbers(attributes["shape"]))


def _call(operands: Types, attributes: Attributes, body: Body) -> tuple[Tensor, ...]:
    _require(isinstance(body, Routine), "a call has a routine")
    routine = cast("Routine", body)
    if routine.definition is not None:
        given = tuple(value.type for value in routine.definition.inputs)
        _require(given == tuple(operands), f"{routine.name} is defined for other operands")
        return tuple(value.type for value in routine.definition.outputs)
    _require(routine.types is not None, f"{routine.name} does not say what it returns")
    assert routine.types is not None
    try:
        return tuple(routine.types(operands, attributes))
    except ValueError as wrong:
        raise IllTyped(str(wrong)) from wrong


_SEVERAL: Final[Mapping[str, Callable[[Types, Attributes, Body], tuple[Tensor, ...]]]] = {"call": _call}

_RULES: Final[Mapping[str, Callable[[Types, Attributes, Body], Tensor]]] = {
    "map": _map, "contract": _contract, "reduce": _reduce, "view": _view, "concat": _concat, "gather": _gather,
    "scatter_add": _scatter_add, "iota": _iota, "scan": _scan, "random": _random,
}  # fmt: skip
