"""Convert indices to floats before they are combined, where that is exact: a row and a column instead of a matrix.

    before: %d = map(%j, %i) [1] [0] "x0 - x1" i64; %f = map(%d) "f32(x0)"
    after:  %u = map(%j) "f32(x0)"; %v = map(%i) "f32(x0)"; %f = map(%u, %v) [1] [0] "x0 - x1"

Integers of so many bits as a float has in its significand are floats, and their sums and differences too, so that not
a bit changes.  Hardware converts integers of 64 bits slowly.
"""

from typing import Final, TypeAlias

import ml_dtypes

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, fold, walk
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.rewrite import Rewriter

RULE: Final = "convert-indices"
Range: TypeAlias = tuple[int, int]


def convert_indices(graph: Graph) -> Graph:
    """Return the graph with conversions of sums and differences of indices done on what these are made of."""
    ranges: dict[Value, Range] = {}
    rewriter = Rewriter(graph, RULE)
    changed = False
    for node in graph.nodes:
        found = _range_of(node, ranges)
        if found is not None:
            ranges[node.result] = found
        maker = _combined(node, graph, ranges)
        if maker is None or node.result in graph.outputs:
            rewriter.keep(node)
            continue
        changed = True
        _convert_first(node, maker, rewriter)
    return rewriter.finish() if changed else graph


def _combined(node: Node, graph: Graph, ranges: dict[Value, Range]) -> Node | None:
    """Return what makes the integers that a node converts, if floats make them as well and it has wider results."""
    if node.op != "map" or len(node.operands) != 1:
        return None
    body, (axes,) = node.expr, labels_of(node.attributes["axes"])
    if not isinstance(body, Apply) or body.opcode != "cast" or not body.dtype.is_float:
        return None
    maker = graph.producers.get(node.operands[0])
    plain = isinstance(body.operands[0], Argument) and axes == tuple(range(len(node.result.type.shape)))
    if maker is None or maker.op != "map" or not plain or maker.result not in ranges:
        return None
    if any(operand not in ranges for operand in maker.operands) or len(maker.operands) < 2:
        return None
    known = {number: ranges[operand] for number, operand in enumerate(maker.operands)}
    return maker if _exact(maker.expr, known, body.dtype) else None


def _convert_first(node: Node, maker: Node, rewriter: Rewriter) -> None:
    dtype, builder = node.result.type.dtype, rewriter.builder
    with builder.within(rewriter.origin(node, maker), node.span):
        operands = rewriter.operands(maker)
        floats = [builder.cast(operand, dtype) for operand in operands]
        body = _in_floats(maker.expr, dtype)
        axes = labels_of(maker.attributes["axes"])
        made = builder.map(body, floats, axes, numbers(maker.attributes["shape"]), node.result.name)
    rewriter.replace(node, made)


def _in_floats(body: Expr, dtype: DType) -> Expr:
    def leaf(each: Argument | Literal) -> Expr:
        if isinstance(each, Argument):
            return Argument(each.number, dtype)
        return Literal(float(each.value), dtype)

    def node(each: Apply, *operands: Expr) -> Expr:
        return apply(each.opcode, *operands)

    made = fold(body, leaf, node)
    assert isinstance(made, Argument | Literal | Apply)
    return made


def _exact(body: Expr, ranges: dict[int, Range], dtype: DType) -> bool:
    """Return whether every integer in an expression is a float too; sums of them are never -0."""
    # The significand's bits in memory, and the one that is not there.
    most = 1 << (ml_dtypes.finfo(dtype.numpy).nmant + 1)
    for each in walk(body):
        found = _range(each, ranges)
        if found is None or max(-found[0], found[1]) > most:
            return False
        if isinstance(each, Apply) and each.opcode not in ("add", "sub", "min", "max"):
            return False
    return True


def _range_of(node: Node, ranges: dict[Value, Range]) -> Range | None:
    """Return the least and the greatest integer of a node's result, where it is made of indices and numbers."""
    if node.op == "iota":
        extent = node.result.type.shape[0]
        return (0, extent - 1) if extent else None
    if node.op == "view" and not node.index_map.padded:
        return ranges.get(node.operands[0])
    if node.op != "map" or not node.result.type.dtype.is_integer:
        return None
    known = {number: ranges[each] for number, each in enumerate(node.operands) if each in ranges}
    return _range(node.expr, known)


def _range(body: Expr, known: dict[int, Range]) -> Range | None:
    def leaf(each: Argument | Literal) -> Range | None:
        if isinstance(each, Argument):
            return known.get(each.number)
        return (int(each.value), int(each.value)) if each.dtype.is_integer else None

    def node(each: Apply, *operands: Range | None) -> Range | None:
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands) or not each.dtype.is_integer:
            return None
        found = _combine(each.opcode, given)
        return found if found is not None and _fits(found, each.dtype) else None

    found = fold(body, leaf, node)
    return found if isinstance(found, tuple) else None


def _combine(opcode: str, operands: list[Range]) -> Range | None:
    (low, high), *rest = operands
    match opcode, rest:
        case "add", [(least, most)]:
            return low + least, high + most
        case "sub", [(least, most)]:
            return low - most, high - least
        case "mul", [(least, most)]:
            ends = [low * least, low * most, high * least, high * most]
            return min(ends), max(ends)
        case "min" | "max", [(least, most)]:
            choose = min if opcode == "min" else max
            return choose(low, least), choose(high, most)
        case "neg", []:
            return -high, -low
        case "cast", []:
            return low, high
        case _:
            return None


def _fits(found: Range, dtype: DType) -> bool:
    most = 1 << (dtype.bits - 1)
    return -most <= found[0] and found[1] < most
