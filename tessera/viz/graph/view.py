"""The graph view: a kernel's dataflow, or any graph, in one or more steps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import pairwise
from typing import Final, cast

from tessera.core.base.plurals import counted
from tessera.core.errors.catalog import NothingToShow, UnknownLevel
from tessera.core.record import OpRecord
from tessera.core.stage import Stage
from tessera.core.stage_diff import KEPT, diff
from tessera.kernels.kernel import Configured, Kernel
from tessera.session.compiled import Compiled
from tessera.viz.base import subjects
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.view import View
from tessera.viz.graph.decisions import LEGEND, Decisions
from tessera.viz.graph.layout import GRAPHVIZ, MOST_FOR_DOT, Epoch, Layout, lay_out
from tessera.viz.graph.model import EDGES, FOLDED, STYLES, Badge, Graph, GraphModel, GraphStep, Node, NodeChange, Region
from tessera.viz.graph.operator_graphs import operator_model, stages_of
from tessera.viz.graph.records import graph_of_records, with_one_name
from tessera.viz.graph.sizes import Box, box_of, head_of
from tessera.viz.operators.captured import Capturable, captured, is_capturable
from tessera.viz.stage_alignment.align import BY_IDENTITY, Related, compare
from tessera.viz.stage_alignment.changes import NO_CHANGES

MOST_OPEN: Final = 600
"""Nodes that are seen at first; regions are closed, the largest first, until there are no more."""
_PLAIN: Final = 400
"""Lines of the plain form; the rest is counted."""
_LINE: Final = "white-space:pre;font:12px ui-monospace,monospace;margin:0"


def dataflow(
    k: Kernel | Configured | Compiled | Capturable, *arguments: object, level: str = "tile", stage: str = "",
    phase: int = 0,
) -> "GraphView":  # fmt: skip
    """Show the dataflow graph of a kernel at a level, with the decisions of its schedule drawn on it.

    Of a function of operators: its nodes by operator and shape, clustered by kernel, and the arrays between them.

    k: a compilation, or a kernel, of which the last call is shown; or a function of operators
    arguments: of a function of operators, examples; without any, its last call is shown
    stage: the pass to show first ("": the last one); a slider goes through all of them
    phase: of a kernel that is several launches, which of them

    Raises:
        NothingToShow: `k` is something else, or has no such phase.
        UnknownLevel: the compilation has no such level or stage.
    """
    if is_capturable(k):
        graph = captured(k, arguments, "dataflow")
        known = stages_of(graph)
        if stage and stage not in known:
            raise UnknownLevel(f"{graph.name} has no stage {stage!r}", hint=f"choose one of {', '.join(known)}")
        return GraphView(operator_model(graph, stage))
    compiled = subjects.compiled(k, "dataflow")
    parts = compiled.phases or (compiled,)
    if not 0 <= phase < len(parts):
        few = counted(len(parts), "launch")
        raise NothingToShow(f"a call of {compiled.name} is {few}, and {phase} is none", hint="phases count from 0")
    shown = parts[phase]
    stages = _different([each for each in shown.stages if each.level == level])
    if not stages:
        known = ", ".join(dict.fromkeys(each.level for each in shown.stages))
        raise UnknownLevel(
            f"{level!r} is no level of {shown.name} for {shown.target.name}", hint=f"choose one of {known}"
        )
    names = [each.name or level for each in stages]
    if stage and stage not in names:
        raise UnknownLevel(f"{level!r} has no stage {stage!r}", hint=f"choose one of {', '.join(names)}")
    decisions = Decisions(shown.artifact.resources.buffers)
    part = f", phase {phase + 1} of {len(compiled.phases)}" if compiled.phases else ""
    steps = steps_of([(name, each.records) for name, each in zip(names, stages, strict=True)], decisions)
    model = GraphModel(
        f"{shown.name}: dataflow, {level} of {shown.target.name}{part}",
        _counted(steps, stages) if level in BY_IDENTITY else steps,
        names.index(stage) if stage else len(names) - 1,
        group_of(shown.name, shown.artifact.source),
        LEGEND,
        shown.name if compiled.phases else "",
    )
    return GraphView(model)


def graph_view(graph: GraphModel | Graph, *, title: str = "graph") -> "GraphView":
    """Show any graph: of operations, of kernels, of anything that `tessera.viz.graph.model` can say.

    Raises NothingToShow for what is no graph.
    """
    if not isinstance(cast("object", graph), GraphModel | Graph):
        raise subjects.wrong(
            "graph_view", "a graph", graph, "give a Graph of tessera.viz.graph.model, or see dataflow(k)"
        )
    return GraphView(graph if isinstance(graph, GraphModel) else GraphModel(title, (GraphStep("", graph),)))


def steps_of(stages: Sequence[tuple[str, Sequence[OpRecord]]], decisions: Decisions) -> tuple[GraphStep, ...]:
    """Return the steps of stages with names, each with what it changed of the one before."""
    steps: list[GraphStep] = []
    before: Sequence[OpRecord] | None = None
    for name, records in stages:
        graph = graph_of_records(records, decisions)
        steps.append(GraphStep(name, graph, _changes(before, records, graph) if before is not None else ()))
        before = records
    return tuple(steps)


def _counted(steps: Sequence[GraphStep], stages: Sequence[Stage]) -> tuple[GraphStep, ...]:
    """Return the steps with their changes in words, counted as films and diffs count them."""
    words = [
        NO_CHANGES if old.records == new.records else compare(old, new, Related.COMPILATION).told
        for old, new in pairwise(stages)
    ]
    return tuple(replace(step, told=told) for step, told in zip(steps, ["", *words], strict=True))


def _changes(before: Sequence[OpRecord], after: Sequence[OpRecord], graph: Graph) -> tuple[NodeChange, ...]:
    known = {node.id for node in graph.nodes} | {region.id for region in graph.regions}
    found = [change for change in diff(with_one_name(before), with_one_name(after)) if change.kind != KEPT]
    return tuple(
        NodeChange(change.id, change.kind, change.fields)
        for change in found
        if change.after is None or change.id in known
    )


def _different(stages: Sequence[Stage]) -> list[Stage]:
    """Leave out the ends of levels (without a name) that are as the last pass left them."""
    found: list[Stage] = []
    for stage in stages:
        if found and not stage.name and stage.records == found[-1].records:
            continue
        found.append(stage)
    return found


class GraphView(View[GraphModel]):
    """A graph with collapsible regions, decisions as badges, and a slider over its steps."""

    kind = "graph"

    @property
    def title(self) -> str:
        """Say which kernel, level and target the graph is of."""
        return self.data.title

    @property
    def shown(self) -> GraphStep:
        """The step that is seen at first."""
        return self.data.steps[self.data.first]

    def text(self) -> str:
        """Return one line."""
        graph = self.shown.graph
        styles = Counter(node.style for node in graph.nodes)
        folded = sum(styles[style] for style in FOLDED)
        parts = [counted(len(graph.nodes) - folded, "operation")]
        if folded:
            parts.append(f"{folded:,} folded")
        parts += [counted(len(graph.edges), "edge"), counted(len(graph.regions), "region")]
        if len(self.data.steps) > 1:
            parts.append(f"{counted(len(self.data.steps), 'step')}, shown: {self.shown.name}")
        return f"{self.data.title}: {', '.join(parts)}"

    def plain_html(self) -> str:
        """Return the regions and operations as an indented outline, each with its inputs."""
        lines = outline(self.shown.graph)
        more = [f"and {len(lines) - _PLAIN:,} more"] if len(lines) > _PLAIN else []
        body = "\n".join(escape(line) for line in [*lines[:_PLAIN], *more])
        head = f"<div><b>{escape(self.data.title)}</b></div><div>{escape(self.shown.name)}</div>"
        return f'{head}<pre style="{_LINE}">{body}</pre>'

    def payload(self) -> Json:
        """Return the steps with each node, edge and region once, and the layout of all steps."""
        model = self.data
        nodes: dict[Node, int] = {}
        regions: dict[Region, int] = {}
        links: dict[tuple[str, str, str, str], int] = {}
        steps: list[Json] = [
            {
                "name": step.name,
                "nodes": [nodes.setdefault(_everywhere(node), len(nodes)) for node in step.graph.nodes],
                "regions": [regions.setdefault(region, len(regions)) for region in step.graph.regions],
                "links": [
                    links.setdefault((edge.source, edge.target, edge.style, edge.label), len(links))
                    for edge in step.graph.edges
                ],
                "told": step.told,
                "changes": {change.id: [change.kind, list(change.fields)] for change in step.changes},
            }
            for step in model.steps
        ]
        used = {node.style for node in nodes} | {edge[2] for edge in links}
        kinds = {badge.kind for one in (*nodes, *regions) for badge in one.badges}
        return {
            "title": model.title, "text": self.text(), "group": model.group or None, "program": model.program,
            "first": model.first, "steps": steps, "folded": dict(FOLDED),
            "closed": list(closed_at_first(self.shown.graph)),
            "legend": {kind: said for kind, said in model.legend.items() if kind in kinds},
            "styles": {style: said for style, said in STYLES.items() if style in used},
            "edges": {style: said for style, said in EDGES.items() if style in used},
            "nodes": [_node(node) for node in nodes],
            "regions": [_region(region) for region in regions],
            "links": [dict(zip(("source", "target", "style", "label"), edge, strict=True)) for edge in links],
            "layout": _layout(lay_out(model.steps)),
        }  # fmt: skip


def closed_at_first(graph: Graph) -> tuple[str, ...]:
    """Return the regions that are closed so that at most 600 nodes are seen, the largest first."""
    parents = {region.id: region.parent for region in graph.regions}
    inside: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for node in graph.nodes:
        if node.style in FOLDED:
            continue
        own[node.region] += 1
        at = node.region
        while at:
            inside[at] += 1
            at = parents.get(at, "")
    seen, closed = sum(own.values()), list[str]()
    # The innermost first among equals: what is around them stays open as long as it can.
    for region, count in sorted(inside.items(), key=lambda item: (-item[1], item[0])):
        if seen <= MOST_OPEN:
            break
        if parents[region] and not any(
            _within(other, region, parents) or _within(region, other, parents) for other in closed
        ):
            closed.append(region)
            seen -= count
    return tuple(closed)


def _within(inner: str, outer: str, parents: Mapping[str, str]) -> bool:
    while inner and inner != outer:
        inner = parents.get(inner, "")
    return bool(inner)


def outline(graph: Graph) -> list[str]:
    """Return a graph as lines: regions with what is in them below, operations with where their inputs come from."""
    names = {node.id: node.label for node in graph.nodes} | {region.id: region.label for region in graph.regions}
    inputs: dict[str, list[str]] = {}
    for edge in graph.edges:
        inputs.setdefault(edge.target, []).append(names[edge.source])
    children: dict[str, list[Node | Region]] = {}
    for region in graph.regions:
        children.setdefault(region.parent, []).append(region)
    for node in graph.nodes:
        children.setdefault(node.region, []).append(node)
    lines: list[str] = []

    def add(place: str, depth: int) -> None:
        for one in children.get(place, ()):
            if isinstance(one, Node) and one.style in FOLDED:
                continue
            note = f" {one.note}" if isinstance(one, Node) and one.note else ""
            given = f" <- {', '.join(dict.fromkeys(inputs[one.id]))}" if one.id in inputs else ""
            said = f" [{'; '.join(badge.text for badge in one.badges)}]" if one.badges else ""
            lines.append(f"{'  ' * depth}{one.label}{note}{given}{said}")
            if isinstance(one, Region):
                add(one.id, depth + 1)

    add("", 0)
    folded = Counter(node.style for node in graph.nodes if node.style in FOLDED)
    if folded:
        lines.append(f"folded: {', '.join(counted(count, FOLDED[style]) for style, count in folded.items())}")
    return lines


def _everywhere(node: Node) -> Node:
    """Return a node without what differs from step to step though it is the same."""
    return replace(node, origin=()) if node.origin else node


def _node(node: Node) -> Json:
    return {
        "id": node.id, "label": node.label, "note": node.note, "place": node.region, "style": node.style,
        "inputs": encode(node.inputs), "outputs": encode(node.outputs), "keys": encode(node.keys),
        "facts": encode(node.facts), **_badges(node.badges, box_of(node)),
    }  # fmt: skip


def _region(region: Region) -> Json:
    return {
        "id": region.id, "label": region.label, "place": region.parent, "keys": encode(region.keys),
        "facts": encode(region.facts), **_badges(region.badges, head_of(region)),
    }  # fmt: skip


def _badges(badges: Sequence[Badge], box: Box) -> dict[str, Json]:
    return {"badges": encode(badges), "chips": encode(box.chips)}


def _layout(layout: Layout) -> Json:
    def sizes(boxes: Mapping[str, Box]) -> Json:
        return {key: [box.width, box.height] for key, box in boxes.items()}

    # Without `dot`, graphviz in the page may lay it out: what a `dot` here would be given.
    may_change = layout.engine != GRAPHVIZ
    return {
        "engine": layout.engine,
        "boxes": sizes(layout.boxes), "heads": sizes(layout.heads), "closed": sizes(layout.closed),
        "variants": {
            variant: {
                place: [
                    {
                        "first": one.first,
                        "rows": [
                            [[slot.id, slot.x, slot.to] if slot.to else [slot.id, slot.x] for slot in row]
                            for row in one.rows
                        ],
                        **(_to_lay_out(one) if may_change else {}),
                    }
                    for one in epochs
                ]
                for place, epochs in found.items()
            }
            for variant, found in layout.variants.items()
        },
    }  # fmt: skip


def _to_lay_out(epoch: Epoch) -> dict[str, Json]:
    boxes = sum(not slot.to for row in epoch.rows for slot in row)
    small = boxes + len(epoch.links) <= MOST_FOR_DOT
    return {"links": encode(epoch.links) if small else [], "extent": [epoch.width, epoch.height]}
