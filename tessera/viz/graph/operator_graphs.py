"""Dataflow of captured functions: operators with their shapes, in regions that are kernels, and arrays between them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.plurals import counted, short_bytes, short_count
from tessera.core.base.source import Span
from tessera.core.graph.expr import Apply, Argument
from tessera.core.graph.graph import Graph as OperatorGraph
from tessera.core.graph.graph import Node as OperatorNode
from tessera.core.graph.graph import Tensor, Value
from tessera.core.record import KERNEL, argument_id
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.core.schedule.text import bytes_moved, operations
from tessera.viz.graph.model import (
    COMPUTE,
    CONSTANT,
    INDEX,
    LOAD,
    MEMORY,
    MMA,
    MOVE,
    STORE,
    Badge,
    Edge,
    Graph,
    GraphModel,
    GraphStep,
    Keys,
    Node,
    NodeChange,
    Port,
    Region,
    graph_of,
)
from tessera.viz.operators.captured import CapturedGraph
from tessera.viz.operators.index_notation import node_text, operator_of
from tessera.viz.operators.names import value_names
from tessera.viz.operators.records import Ancestry, identity, kernel_identity

FORM: Final = "form"
COST: Final = "cost"
OPERATOR: Final = "operator"
LEGEND: Final[Mapping[str, str]] = {
    FORM: "the form of the kernel: its loops, and what it keeps in registers",
    OPERATOR: "the operator that you called",
    COST: "what the kernel computes and what it moves through memory, each array once",
}
_STYLES: Final = {
    "contract": MMA, "view": MOVE, "concat": MOVE, "iota": INDEX, "gather": LOAD, "scatter_add": STORE,
}  # fmt: skip
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "×", "div": "÷"}


def operator_model(captured: CapturedGraph, stage: str = "") -> GraphModel:
    """Return the graph after each pass, and divided into kernels; stage: what is shown first, "": the kernels.

    Raises ValueError for a stage that there is not.
    """
    steps = [(name, _of_graph(graph, captured.ancestry)) for name, graph in captured.executable.states]
    steps.append(("schedule-fuse", _of_plan(captured.plan, captured.ancestry)))
    few = counted(sum(group.kind != CALL for group in captured.plan.groups), "kernel")
    first = len(steps) - 1
    steps += [(body.name, _of_plan(body.plan, Ancestry([body.plan.graph]))) for body in captured.bodies]
    names = [name for name, _ in steps]
    before: Graph | None = None
    made: list[GraphStep] = []
    for name, graph in steps:
        inside = len(made) > first  # a body is another graph
        made.append(GraphStep(name, graph, tuple(_changes(before, graph)) if before is not None and not inside else ()))
        before = graph
    first = names.index(stage) if stage else first
    return GraphModel(f"{captured.name}: dataflow, {few}", tuple(made), first, captured.selection, LEGEND)


def stages_of(captured: CapturedGraph) -> tuple[str, ...]:
    """Return the names of the steps."""
    return (*(name for name, _ in captured.executable.states), "schedule-fuse", *(b.name for b in captured.bodies))


def tensor_text(tensor: Tensor) -> str:
    """Return a type in few words: `f32 64×32`."""
    return f"{tensor.dtype.name} {'×'.join(map(str, tensor.shape))}".strip()


def node_label(node: OperatorNode) -> str:
    """Return what a node does, in a word: `max`, `exp`, `matmul`."""
    if node.op == "reduce":
        return str(node.attributes["kind"])
    if node.op == "contract":
        operator = operator_of(node)
        return operator if operator in ("matmul", "gemm", "einsum") or operator.startswith("conv") else "product"
    if node.op != "map":
        return node.op
    body = node.expr
    if isinstance(body, Argument):
        return "repeat"
    if not isinstance(body, Apply):
        return f"{body.value}"
    simple = not any(isinstance(each, Apply) for each in body.operands)
    name = body.dtype.name if body.opcode == "cast" else _SIGNS.get(body.opcode, body.opcode)
    return name if simple else f"{name} …"


@dataclass(slots=True)
class _Drawing:
    """One step, as far as it is drawn.  sources: the node that makes each value, in memory or where it stands."""

    ancestry: Ancestry
    names: Mapping[Value, str]
    nodes: list[Node] = field(default_factory=list[Node])
    edges: list[Edge] = field(default_factory=list[Edge])
    regions: list[Region] = field(default_factory=list[Region])
    sources: dict[Value, str] = field(default_factory=dict[Value, str])

    def inputs(self, graph: OperatorGraph) -> None:
        for number, value in enumerate(graph.inputs):
            place = argument_id(KERNEL, 0, number)
            self.nodes.append(Node(place, self.names[value], tensor_text(value.type), style=MEMORY))
            self.sources[value] = place

    def outputs(self, graph: OperatorGraph) -> None:
        for number, value in enumerate(graph.outputs):
            place = f"result {number}"
            label = "result" if len(graph.outputs) == 1 else f"result {number}"
            self.nodes.append(Node(place, label, tensor_text(value.type), style=MEMORY))
            self.join(value, self.sources[value], place)

    def add(self, node: OperatorNode, place: str, region: str, *, tagged: bool = False) -> None:
        """Add a node, without its edges.  tagged: with a badge that names the operator."""
        value = node.results[0]
        mine = self.names[value]
        said = node_label(node)
        keys = Keys(self.ancestry.numbers(node), (place,), _lines(self.ancestry.spans(node)))
        facts = [("equation", node_text(node, self.names)), ("operator", "/".join(node.origin.composite))]
        if node.origin.rule:
            facts.append(("made by", f"{node.origin.rule} of {', '.join(f'g{each}' for each in node.origin.parents)}"))
        called = operator_of(node)
        badges = (
            (Badge(OPERATOR, called, "/".join(node.origin.composite)),) if tagged and called not in ("", said) else ()
        )
        self.nodes.append(
            Node(
                place, said if mine.startswith("g") and mine[1:].isdecimal() else f"{mine} = {said}",
                tensor_text(value.type), region, _style(node), tuple(self._port(each) for each in node.operands),
                tuple(self._port(each) for each in node.results), badges, keys, tuple(facts),
                tuple(f"g{parent}" for parent in node.origin.parents),
            )
        )  # fmt: skip

    def join(self, value: Value, source: str, target: str, *, inside: bool = False) -> None:
        """Add an edge; inside: of one kernel, where the value is in registers."""
        where = "in registers" if inside else f"{short_bytes(value.type.bytes)}"
        self.edges.append(Edge(source, target, port=self.names[value], label=f"{tensor_text(value.type)}, {where}"))

    def graph(self) -> Graph:
        return graph_of(self.nodes, self.edges, self.regions)

    def _port(self, value: Value) -> Port:
        return Port(self.names[value], self.names[value], tensor_text(value.type))


def _of_graph(graph: OperatorGraph, ancestry: Ancestry) -> Graph:
    """Return a graph with a region for each operator of several nodes."""
    drawing = _Drawing(ancestry, value_names(graph))
    drawing.inputs(graph)
    sizes: dict[tuple[str, ...], list[OperatorNode]] = {}
    for node in graph.nodes:
        sizes.setdefault(node.origin.composite, []).append(node)
    for path, nodes in sizes.items():
        if _is_region(path, nodes):
            lines = dict.fromkeys(line for node in nodes for line in _lines(ancestry.spans(node)))
            drawing.regions.append(Region("/".join(path), operator_of(nodes[0]), keys=Keys(lines=tuple(lines))))
    for node in graph.nodes:
        path = node.origin.composite
        drawing.add(node, identity(node), "/".join(path) if _is_region(path, sizes[path]) else "")
        for operand in dict.fromkeys(node.operands):
            drawing.join(operand, drawing.sources[operand], identity(node))
        drawing.sources |= dict.fromkeys(node.results, identity(node))
    drawing.outputs(graph)
    return drawing.graph()


def _is_region(path: tuple[str, ...], nodes: list[OperatorNode]) -> bool:
    return len(nodes) > 1 and bool(operator_of(nodes[0])) and len(path) > 1


def _of_plan(plan: Plan, ancestry: Ancestry) -> Graph:
    """Return a graph with a region for each kernel."""
    drawing = _Drawing(ancestry, value_names(plan.graph))
    drawing.inputs(plan.graph)
    seen: dict[int, int] = {}
    left = dict(plan.aliases)
    for group in plan.groups:
        _add_aliases(drawing, plan, left)
        drawing.regions.append(_kernel(group, ancestry))
        local: dict[Value, str] = {}
        for node in group.members:
            count = seen[node.ident] = seen.get(node.ident, -1) + 1
            place = f"{identity(node)}.{count}" if count else identity(node)
            drawing.add(node, place, kernel_identity(group), tagged=True)
            for operand in dict.fromkeys(node.operands):
                source = local.get(operand) or drawing.sources[operand]
                drawing.join(operand, source, place, inside=operand in local)
            local |= dict.fromkeys(node.results, place)
        drawing.sources |= {value: local[value] for value in group.outputs}
    _add_aliases(drawing, plan, left)
    drawing.outputs(plan.graph)
    return drawing.graph()


def _add_aliases(drawing: _Drawing, plan: Plan, left: dict[Value, Value]) -> None:
    """Add the values that are others in another shape, as soon as these are there."""
    for value, source in list(left.items()):
        if source in drawing.sources:
            node = plan.graph.producers[value]
            drawing.add(node, identity(node), "")
            drawing.join(source, drawing.sources[source], identity(node))
            drawing.sources[value] = identity(node)
            del left[value]


def _kernel(group: Group, ancestry: Ancestry) -> Region:
    cost = f"{short_count(operations(group))}FLOP, {short_bytes(bytes_moved(group))}"
    lines = dict.fromkeys(line for node in group.members for line in _lines(ancestry.spans(node)))
    told = f"{group.kind}: {counted(len(group.members), 'node')} in one kernel"
    badges = (Badge(FORM, group.kind, told), Badge(COST, cost, "floating-point operations, and bytes read and written"))
    keys = Keys((), (kernel_identity(group),), tuple(lines))
    return Region(kernel_identity(group), f"kernel {group.ident} {group.name}", "", badges, keys)


def _style(node: OperatorNode) -> str:
    if node.op == "map" and not node.operands:
        return CONSTANT
    return _STYLES.get(node.op, COMPUTE)


def _lines(spans: tuple[Span, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(span.line for span in spans))


def _changes(before: Graph, after: Graph) -> Iterator[NodeChange]:
    old = {node.id: node for node in before.nodes}
    new = {node.id: node for node in after.nodes}
    for key, node in new.items():
        if key not in old:
            yield NodeChange(key, "added")
        elif old[key].region != node.region:
            yield NodeChange(key, "moved")
        elif old[key].facts != node.facts:
            yield NodeChange(key, "changed", ("equation",))
    for key in old:
        if key not in new:
            yield NodeChange(key, "removed")
