"""Graphs and plans as records and lines: what stages, diffs and graphs of any level are made of.

A node `g17` has that identity at every level.  Its numbers are those of the captured nodes that it was made of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tessera.core.base.source import NOWHERE, Span
from tessera.core.graph.expr import Apply, Argument, Literal, to_text
from tessera.core.graph.graph import Graph, Node, Routine, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.text import index_map_text
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Attribute
from tessera.core.record import KERNEL, AttributeData, OpRecord, ValueRecord, argument_id, result_id
from tessera.core.schedule.plan import Group, Plan
from tessera.core.schedule.text import plan_lines
from tessera.viz.operators.index_notation import node_text, operator_of, signature
from tessera.viz.operators.names import value_names

GRAPH, SCHEDULE = "graph", "schedule"
LEVELS = (GRAPH, SCHEDULE)
"""The levels above those of kernels, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class BodyPlan:
    """The plan of a body.  name: for people; nodes: that hold it, the outermost first."""

    name: str
    nodes: tuple[Node, ...]
    plan: Plan


class Ancestry:
    """The captured nodes that each node was made of, and the places of these."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._roots: dict[int, tuple[int, ...]] = {}
        self._spans: dict[int, Span] = {}
        for number, graph in enumerate(graphs):
            for node in graph.nodes:
                if node.ident not in self._roots:
                    self._add(node, captured=number == 0)

    def _add(self, node: Node, *, captured: bool) -> None:
        parents = [root for parent in node.origin.parents for root in self._roots.get(parent, ())]
        self._roots[node.ident] = (node.ident,) if captured or not parents else tuple(dict.fromkeys(parents))
        self._spans.setdefault(node.ident, node.span)

    def numbers(self, node: Node) -> tuple[int, ...]:
        """Return the numbers of the captured nodes that a node was made of."""
        return self._roots.get(node.ident, (node.ident,))

    def spans(self, node: Node) -> tuple[Span, ...]:
        """Return the places of a node: its own first, then those of all that it was made of."""
        found = dict.fromkeys((node.span, *(self._spans.get(number, NOWHERE) for number in self.numbers(node))))
        found.pop(NOWHERE, None)
        return tuple(found)


def graph_listing(graph: Graph, stage: str, ancestry: Ancestry) -> Listing:
    """Return a graph as it stood after a pass."""
    names = value_names(graph)
    values = _values(graph)
    records = [_root(graph, values), *(_record(node, values, ancestry, KERNEL) for node in graph.nodes)]
    lines = [Line(f"{signature(graph, names)} {{", record=KERNEL)]
    for node in graph.nodes:
        said = operator_of(node)
        text = f"  {node_text(node, names)} : {node.results[0].type}{f'  // {said}' if said else ''}"
        lines.append(Line(text, ancestry.spans(node), ancestry.numbers(node), identity(node)))
        lines += _body_lines(node, ancestry)
    outputs = ", ".join(f"%{names[value]}" for value in graph.outputs)
    return Listing(GRAPH, stage, (*lines, Line(f"  return {outputs}"), Line("}")), tuple(records))


def _body_lines(holder: Node, ancestry: Ancestry) -> Iterator[Line]:
    """Yield the bodies of a node as text below it: their nodes have its numbers, and places of their own."""
    numbers = ancestry.numbers(holder)
    for body in holder.graphs if isinstance(holder.body, tuple) else ():
        names = value_names(body)
        yield Line(f"    {signature(body, names)} {{", ancestry.spans(holder), numbers)
        for node in body.nodes:
            said = operator_of(node)
            text = f"      {node_text(node, names)} : {node.results[0].type}{f'  // {said}' if said else ''}"
            yield Line(text, (node.span,) if node.span != NOWHERE else (), numbers)
            yield from (replace(line, text=f"    {line.text}", ops=numbers) for line in _body_lines(node, ancestry))
        yield Line(f"      return {', '.join(f'%{names[value]}' for value in body.outputs)}")
        yield Line("    }")


def plan_listing(plan: Plan, stage: str, ancestry: Ancestry, bodies: Sequence[BodyPlan] = ()) -> Listing:
    """Return a plan: each kernel with its nodes.  A node that several kernels compute is `g17.1` in the second one.

    bodies: whose plans are shown below it
    """
    values = _values(plan.graph)
    names = {value: f"%{name}" for value, name in value_names(plan.graph).items()}
    seen: dict[int, int] = {}
    records = [_root(plan.graph, values)]
    lines: list[Line] = []
    for line in plan_lines(plan, names):
        group, node = line.group, line.node
        text = line.text.partition("  # line ")[0]
        if group is None:
            lines.append(Line(text, record="" if lines else KERNEL))
        elif node is None:
            first = text.lstrip().startswith("kernel ")
            records += [_kernel(group, ancestry)] if first else []
            lines.append(
                Line(text, _spans(group, ancestry) if first else (), (), kernel_identity(group) if first else "")
            )
        else:
            count = seen[node.ident] = seen.get(node.ident, -1) + 1
            record = _record(node, values, ancestry, kernel_identity(group), count)
            records.append(record)
            said = operator_of(node)
            text += f"  // {said}" if said else ""
            lines.append(Line(text, record.spans, record.numbers, record.id))
    for body in bodies:
        numbers = ancestry.numbers(body.nodes[0])
        lines.append(Line(f"{'  ' * len(body.nodes)}{body.name}", ancestry.spans(body.nodes[0]), numbers))
        for line in plan_lines(body.plan):
            text = "  " * len(body.nodes) + line.text.partition("  # line ")[0]
            here = (line.node.span,) if line.node is not None and line.node.span != NOWHERE else ()
            lines.append(Line(text, here, numbers if here else ()))
    return Listing(SCHEDULE, stage, tuple(lines), tuple(records))


def identity(node: Node) -> str:
    """Return the identity of a node at every level."""
    return f"g{node.ident}"


def kernel_identity(group: Group) -> str:
    """Return the identity of a group."""
    return f"{KERNEL}.{group.ident + 1}"


def _spans(group: Group, ancestry: Ancestry) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(span for node in group.members for span in ancestry.spans(node)))


def _values(graph: Graph) -> Mapping[Value, str]:
    found = {value: argument_id(KERNEL, 0, number) for number, value in enumerate(graph.inputs)}
    for node in graph.nodes:
        found |= {value: result_id(identity(node), number) for number, value in enumerate(node.results)}
    return found


def _root(graph: Graph, values: Mapping[Value, str]) -> OpRecord:
    arguments = tuple(ValueRecord(values[value], str(value.type), value.name) for value in graph.inputs)
    return OpRecord(KERNEL, "graph.module", arguments=(arguments,), attributes={"sym_name": graph.name})


def _kernel(group: Group, ancestry: Ancestry) -> OpRecord:
    attributes: Mapping[str, AttributeData] = {"name": group.name, "kind": group.kind, "extents": group.extents}
    return OpRecord(
        kernel_identity(group), "schedule.kernel", KERNEL, attributes=attributes, spans=_spans(group, ancestry)
    )


def _record(
    node: Node, values: Mapping[Value, str], ancestry: Ancestry, parent: str, count: int = 0
) -> OpRecord:  # fmt: skip
    mine = identity(node)
    name = f"{mine}.{count}" if count else mine
    origin = (mine,) if count else tuple(f"g{parent}" for parent in node.origin.parents)
    results = tuple(
        ValueRecord(result_id(name, number), str(value.type), value.name) for number, value in enumerate(node.results)
    )
    return OpRecord(
        name, f"graph.{node.op}", parent, 0, tuple(values[operand] for operand in node.operands), results, (),
        dict(_attributes(node)), ancestry.spans(node), ancestry.numbers(node), origin,
    )  # fmt: skip


def _attributes(node: Node) -> Iterator[tuple[str, AttributeData]]:
    for name, value in node.attributes.items():
        if value not in ("", None, ()):
            yield name, _data(value)
    if isinstance(node.body, IndexMap):
        yield "map", index_map_text(node.body)
    elif isinstance(node.body, Routine):
        yield "routine", node.body.name
    elif isinstance(node.body, Argument | Literal | Apply):
        yield "body", to_text(node.body)


def _data(value: Attribute) -> AttributeData:
    if isinstance(value, tuple):
        return tuple(_data(each) for each in value)
    return value if isinstance(value, bool | int | float | str) else str(value)
