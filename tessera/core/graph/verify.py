"""Verify a graph: every node as the table says, values before their uses, numbers used once."""

from collections.abc import Sequence

from tessera.core.graph.graph import Graph, Node, Tensor, Value
from tessera.core.graph.infer import IllTyped, infer_all
from tessera.core.graph.spec import PRIMITIVES


def verify(graph: Graph) -> None:
    """Raise IllTyped for a graph that breaks a rule; the message names the node."""
    known: set[Value] = set(graph.inputs)
    numbers: set[int] = set()
    for node in graph.nodes:
        try:
            _verify_node(node, known, numbers)
        except IllTyped as wrong:
            raise IllTyped(f"{graph.name}: g{node.ident} ({node.op}): {wrong}") from None
        known |= set(node.results)
    for value in graph.outputs:
        if value not in known:
            raise IllTyped(f"{graph.name}: an output that nothing makes: {value}")


def _verify_node(node: Node, known: set[Value], numbers: set[int]) -> None:
    if node.op not in PRIMITIVES:
        raise IllTyped("no such primitive")
    if node.ident in numbers:
        raise IllTyped("its number is used twice")
    numbers.add(node.ident)
    for operand in node.operands:
        if operand not in known:
            raise IllTyped(f"uses a value before it is made: {operand}")
    for value in node.results:
        if value in known:
            raise IllTyped(f"makes a value twice: {value}")
    for inner in node.graphs:
        verify(inner)
    inferred = infer_all(node.op, [operand.type for operand in node.operands], node.attributes, node.body)
    made = tuple(value.type for value in node.results)
    if inferred != made:
        raise IllTyped(f"its result is {_listed(made)}, and must be {_listed(inferred)}")


def _listed(types: Sequence[Tensor]) -> str:
    return ", ".join(map(str, types)) or "nothing"
