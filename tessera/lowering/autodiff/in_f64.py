"""A graph computed in f64: what derivatives are compared with finite differences in."""

from collections.abc import Mapping
from dataclasses import replace

from tessera.core.base.dtypes import DType, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, walk
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Body, Graph, Node, Routine, Tensor, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.program.program import Attribute


def in_f64(graph: Graph) -> Graph:
    """Return `graph` with every float an f64: no rounding but that of f64, the same numbers and origins.

    Calls that round by themselves are what they are over real numbers (`Routine.real`).
    """
    values: dict[Value, Value] = {value: _value(value) for value in graph.inputs}
    nodes: list[Node] = []
    for node in graph.nodes:
        values.update({value: _value(value) for value in node.results})
        operands, results = (tuple(values[v] for v in each) for each in (node.operands, node.results))
        nodes.append(
            replace(node, operands=operands, results=results, attributes=_attributes(node), body=_body(node.body))
        )  # fmt: skip
    inputs, outputs = (tuple(values[v] for v in each) for each in (graph.inputs, graph.outputs))
    return replace(graph, inputs=inputs, nodes=tuple(nodes), outputs=outputs)


def _wider(dtype: DType) -> DType:
    return f64 if dtype.is_float else dtype


def _value(value: Value) -> Value:
    return Value(Tensor(_wider(value.type.dtype), value.type.shape), value.name, value.span)


def _attributes(node: Node) -> Mapping[str, Attribute]:
    if node.op != "contract" or not node.operands[0].type.dtype.is_float:
        return node.attributes
    return {**node.attributes, "accumulate": f64.name, "compute": ""}


def _body(body: Body) -> Body:
    if body is None or isinstance(body, IndexMap):
        return body
    if isinstance(body, tuple):
        return tuple(map(in_f64, body))
    if isinstance(body, Routine):
        meant = body.real or body.definition
        return body if meant is None else replace(body, definition=in_f64(meant), real=None)
    return _expr(body)


def _expr(expr: Expr) -> Expr:
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        dtype = _wider(each.dtype)
        if isinstance(each, Argument):
            done[each] = Argument(each.number, dtype)
        elif isinstance(each, Literal):
            done[each] = Literal(each.value, dtype)
        elif each.opcode == "cast":
            done[each] = cast_expr(done[each.operands[0]], dtype)
        else:
            done[each] = Apply(each.opcode, tuple([done[e] for e in each.operands]), dtype, each.predicate)
    return done[expr]
