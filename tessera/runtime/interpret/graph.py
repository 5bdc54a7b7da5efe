"""`evaluate`: run a Graph with NumPy, node by node.  The oracle that rewritten graphs and their kernels agree with."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from tessera.core.base.dtypes import f64
from tessera.core.base.philox import random_bits
from tessera.core.base.reductions import identity, tree_sum
from tessera.core.errors.catalog import NoImplementation
from tessera.core.graph.bodies import parts, steps
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold
from tessera.core.graph.graph import Graph, Node
from tessera.core.graph.index_maps import Affine
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.program.spec import BINARY
from tessera.runtime.interpret.arithmetic import binary, compare, constant, greatest, least, unary
from tessera.runtime.interpret.arithmetic import cast as convert
from tessera.runtime.interpret.rounding import Numbers, fma
from tessera.runtime.interpret.tiles import dot

Observer = Callable[[Node, tuple[Numbers, ...]], None]


def evaluate(
    graph: Graph, inputs: Sequence[Numbers], observer: Observer | None = None, *, blas: bool = False
) -> tuple[Numbers, ...]:
    """Return the outputs of `graph` for `inputs`, arrays of exactly the types of its inputs.

    observer: is told of every node and its results
    blas: whether contractions of f64 may sum in any order, as NumPy's `einsum` does: hundreds of times as fast
    """
    values = dict(zip(graph.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            operands = [values[operand] for operand in node.operands]
            fast = blas and node.op == "contract" and node.result.type.dtype == f64
            results = (_einsum(node, operands),) if fast else evaluate_node(node, operands)
            values.update(zip(node.results, results, strict=True))
            if observer is not None:
                observer(node, results)
    return tuple(values[value] for value in graph.outputs)


def evaluate_node(node: Node, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    """Return the results of one node."""
    several = _SEVERAL.get(node.op)
    if several is not None:
        return several(node, operands)
    rule = _RULES.get(node.op)
    if rule is None:
        raise NoImplementation(f"the oracle cannot run {node.op}", node.span)
    return (rule(node, operands),)


def evaluate_expr(expr: Expr, operands: Sequence[Numbers]) -> Numbers:
    """Return `expr` of arrays that broadcast together, with the meaning of a Program's operations."""

    def leaf(each: Argument | Literal) -> Numbers:
        return operands[each.number] if isinstance(each, Argument) else constant(each.value, each.dtype)

    def node(each: Apply, *values: Numbers) -> Numbers:
        match each.opcode:
            case "cast":
                return convert(values[0], each.dtype)
            case "cmp":
                return compare(each.predicate, values[0], values[1])
            case "select":
                return np.where(values[0], values[1], values[2])
            case "fma":
                return fma(values[0], values[1], values[2], each.dtype)
            case opcode if opcode in BINARY:
                return binary(opcode, values[0], values[1], each.dtype)
            case opcode:
                return unary(opcode, values[0], each.dtype)

    return cast("Numbers", fold(expr, leaf, node))


def _contiguous(values: Numbers) -> Numbers:
    """Return a copy in row-major order; `np.ascontiguousarray` would make a row of a number."""
    return np.array(values, order="C")


def _map(node: Node, operands: Sequence[Numbers]) -> Numbers:
    rank = len(node.result.type.shape)
    aligned: list[Numbers] = []
    for operand, places in zip(operands, labels_of(node.attributes["axes"]), strict=True):
        order = sorted(range(len(places)), key=lambda axis: places[axis])
        shape = [1] * rank
        for axis in order:
            shape[places[axis]] = operand.shape[axis]
        aligned.append(operand.transpose(order).reshape(shape))
    value = evaluate_expr(node.expr, aligned)
    return _contiguous(np.broadcast_to(value, node.result.type.shape))


def _contract(node: Node, operands: Sequence[Numbers]) -> Numbers:
    """Bring both operands to [batch, rows, k] and [batch, k, columns]."""
    (left, right), result = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
    kind, made = node.operands[0].type.dtype, node.result.type.dtype
    batch = [label for label in result if label in left and label in right]
    rows = [label for label in result if label in left and label not in right]
    columns = [label for label in result if label not in left]
    summed = [label for label in left if label not in result] + [
        label for label in right if label not in left and label not in result
    ]
    extents = {label: size for labels, x in zip((left, right), operands, strict=True)
               for label, size in zip(labels, x.shape, strict=True)}  # fmt: skip

    def arranged(labels: tuple[int, ...], x: Numbers, order: Sequence[Sequence[int]]) -> Numbers:
        wanted = [label for group in order for label in group]
        x = x.transpose([labels.index(label) for label in wanted if label in labels])
        shape = [extents[label] if label in labels else 1 for label in wanted]
        x = np.broadcast_to(x.reshape(shape), [extents[label] for label in wanted])
        return x.reshape([int(np.prod([extents[label] for label in group], dtype=np.int64)) for group in order])

    a = arranged(left, operands[0], (batch, rows, summed))
    b = arranged(right, operands[1], (batch, summed, columns))
    compute = str(node.attributes.get("compute") or "")
    made_of = [dot(x, y, operand=kind, result=made, compute=compute) for x, y in zip(a, b, strict=True)]
    stacked = np.stack(made_of) if made_of else np.zeros((0, a.shape[1], b.shape[2]), made.numpy)
    order = (*batch, *rows, *columns)
    stacked = stacked.reshape([extents[label] for label in order])
    return _contiguous(stacked.transpose([order.index(label) for label in result]))


def _einsum(node: Node, operands: Sequence[Numbers]) -> Numbers:
    """Contract by matrix products of the library; windows stay views, and nothing is spread over what it lacks."""
    (left, right), result = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
    names = {label: number for number, label in enumerate(dict.fromkeys((*left, *right)))}  # einsum takes 52 at most
    one, other, kept = ([names[label] for label in labels] for labels in (left, right, result))
    made = np.einsum(operands[0], one, operands[1], other, kept, optimize=True, dtype=np.float64)
    return _contiguous(made)


def _reduce(node: Node, operands: Sequence[Numbers]) -> Numbers:
    (x,), axes = operands, numbers(node.attributes["axes"])
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    length = math.prod(x.shape[axis] for axis in axes)  # -1 would be ambiguous where another extent is 0
    flat = x.transpose((*kept, *axes)).reshape((*(x.shape[axis] for axis in kept), length))
    kind = node.attributes["kind"]
    if kind == "sum":
        return tree_sum(flat, -1)
    choose = greatest if kind == "max" else least
    if flat.shape[-1] == 0:
        return np.full(flat.shape[:-1], identity(str(kind), flat.dtype), flat.dtype)
    if flat.dtype.kind != "f":
        return flat.max(-1) if kind == "max" else flat.min(-1)
    while flat.shape[-1] > 1:  # halving: `greatest` knows which zero wins, NumPy's reductions do not
        half = flat.shape[-1] // 2
        joined = choose(flat[..., :half], flat[..., half : 2 * half]).astype(flat.dtype)
        flat = np.concatenate([joined, flat[..., 2 * half :]], axis=-1)
    return flat[..., 0]


def _view(node: Node, operands: Sequence[Numbers]) -> Numbers:
    (x,), index_map = operands, node.index_map
    if math.prod(index_map.shape) == 0:
        return np.zeros(index_map.shape, x.dtype)
    index = np.indices(index_map.shape, sparse=True) if index_map.shape else ()
    places = [_place(affine, index, index_map.shape) for affine in index_map.axes]
    if not index_map.padded:
        return _contiguous(np.broadcast_to(x[tuple(places)], index_map.shape))
    inside = np.ones(index_map.shape, np.bool_)
    for place, size in zip(places, x.shape, strict=True):
        inside &= (place >= 0) & (place < size)
    if x.size == 0:
        return np.zeros(index_map.shape, x.dtype)
    clipped = [np.clip(place, 0, size - 1) for place, size in zip(places, x.shape, strict=True)]
    return np.where(inside, x[tuple(clipped)], np.zeros((), x.dtype))


def _place(affine: Affine, index: Sequence[Numbers], shape: Sequence[int]) -> Numbers:
    total: Numbers = np.full((1,) * len(shape), affine.constant, np.int64)
    for term in affine.terms:
        part = index[term.axis] // term.divisor
        total = total + term.scale * (part % term.modulus if term.modulus else part)
    return total


def _concat(node: Node, operands: Sequence[Numbers]) -> Numbers:
    return np.concatenate(operands, axis=cast("int", node.attributes["axis"]))


def _gather(node: Node, operands: Sequence[Numbers]) -> Numbers:
    """Indices outside the table give 0."""
    table, index = operands
    axis = cast("int", node.attributes["axis"])
    size = table.shape[axis]
    if size == 0:
        return np.zeros(node.result.type.shape, table.dtype)
    taken = np.take(table, np.clip(index, 0, size - 1), axis=axis)
    inside = ((index >= 0) & (index < size)).reshape((*(1,) * axis, *index.shape, *(1,) * (table.ndim - axis - 1)))
    return np.where(inside, taken, np.zeros((), table.dtype))


def _scatter_add(node: Node, operands: Sequence[Numbers]) -> Numbers:
    """Add in index order, in the values' own dtype; indices outside count for nothing."""
    index, values = operands
    axis, rank = cast("int", node.attributes["axis"]), index.ndim
    result = np.zeros(node.result.type.shape, values.dtype)
    flat = values.reshape((*values.shape[:axis], index.size, *values.shape[axis + rank :]))
    flat = np.moveaxis(flat, axis, 0)
    target = np.moveaxis(result, axis, 0)
    for place, each in zip(index.reshape(-1), flat, strict=True):
        if 0 <= place < target.shape[0]:
            target[place] += each
    return result


def _iota(node: Node, operands: Sequence[Numbers]) -> Numbers:
    del operands
    return np.arange(node.result.type.shape[0], dtype=np.int64)


def _random(node: Node, operands: Sequence[Numbers]) -> Numbers:
    shape = node.result.type.shape
    return random_bits(operands[0], math.prod(shape), cast("int", node.attributes["stream"])).reshape(shape)


def _call(node: Node, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    """Run the routine on NumPy arrays, or the graph that it is."""
    routine = node.routine
    if routine.definition is not None:
        return evaluate(routine.definition, operands)
    if routine.run is None:
        raise NoImplementation(f"the oracle cannot run {routine.name}", node.span)
    given = [_contiguous(each) for each in operands]
    if routine.fills:
        places = [np.empty(value.type.shape, value.type.dtype.numpy) for value in node.results]
        routine.run([*given, *places], node.attributes)
        return tuple(places)
    return tuple(np.asarray(each) for each in routine.run(given, node.attributes))


def _loop(node: Node, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    (body,) = node.graphs
    given = parts(node, operands)
    carries, count = given.carries, len(given.carries)
    stacks = [np.empty(value.type.shape, value.type.dtype.numpy) for value in node.results[count:]]
    for step in steps(node):
        made = evaluate(body, (*given.constants, *carries, *(np.asarray(each[step]) for each in given.stacked)))
        carries = made[:count]
        for stack, each in zip(stacks, made[count:], strict=True):
            stack[step] = each
    return (*carries, *stacks)


def _while(node: Node, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    condition, body = node.graphs
    given = parts(node, operands)
    carries = given.carries
    while bool(evaluate(condition, (*given.constants, *carries))[0]):
        carries = evaluate(body, (*given.constants, *carries))
    return tuple(map(_contiguous, carries))


def _branch(node: Node, operands: Sequence[Numbers]) -> tuple[Numbers, ...]:
    holds, fails = node.graphs
    return evaluate(holds if bool(operands[0]) else fails, operands[1:])


_SEVERAL: Final[Mapping[str, Callable[[Node, Sequence[Numbers]], tuple[Numbers, ...]]]] = {
    "call": _call, "loop": _loop, "while": _while, "branch": _branch,
}  # fmt: skip

_RULES: Final[Mapping[str, Callable[[Node, Sequence[Numbers]], Numbers]]] = {
    "map": _map, "contract": _contract, "reduce": _reduce, "view": _view, "concat": _concat, "gather": _gather,
    "scatter_add": _scatter_add, "iota": _iota, "random": _random,
}  # fmt: skip
