"""The graph view model: nodes with ports, edges, nested regions, decisions as badges, and steps of one graph.

Nothing here is about a level of the compiler: operations of Tile IR, of machine code or of a graph of kernels are all
nodes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MEMORY, LOAD, STORE, MMA, COMPUTE, MOVE = "memory", "load", "store", "mma", "compute", "move"
BARRIER, CONTROL, ARGUMENT, INDEX, CONSTANT = "barrier", "control", "argument", "index", "constant"
STYLES: Final[Mapping[str, str]] = {
    MEMORY: "array or buffer",
    LOAD: "load",
    STORE: "store",
    MMA: "product",
    COMPUTE: "arithmetic",
    MOVE: "shape, type or place",
    BARRIER: "barrier",
    CONTROL: "control flow",
    ARGUMENT: "carried value",
    INDEX: "index arithmetic",
    CONSTANT: "constant",
}
"""What a node is, by its style class, in words."""
FOLDED: Final[Mapping[str, str]] = {INDEX: "index operation", CONSTANT: "constant"}
"""Styles that are folded away until they are asked for, and what one of them is called."""
DATA, CARRIED, ADDRESS, EFFECT = "data", "carried", "index", "effect"
EDGES: Final[Mapping[str, str]] = {
    DATA: "value",
    CARRIED: "value of the next iteration",
    ADDRESS: "index, bound or condition",
    EFFECT: "memory written",
}
"""What an edge is, by its style, in words."""


def _settle(of: object, *names: str) -> None:
    """Make tuples of the sequences in the fields `names` of a frozen object, so that it can be compared and hashed."""
    for name in names:
        object.__setattr__(of, name, tuple(getattr(of, name)))


@dataclass(frozen=True, slots=True)
class Badge:
    """A decision, drawn on what it is about.

    kind: its class, which the legend explains; text: a few words; detail: all of it
    ring: stages of a circular buffer, drawn as segments; 0: it is none
    """

    kind: str
    text: str
    detail: str = ""
    ring: int = 0


@dataclass(frozen=True, slots=True)
class Port:
    """A value that a node takes or makes: its identity, what it is called, its type."""

    id: str
    label: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class Keys:
    """Counterparts of the node in other views: numbers of the Program's operations, records, lines."""

    ops: tuple[int, ...] = ()
    records: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """An operation.

    id: the same in every step; region: where it stands ("": the outermost); style: one of STYLES
    label: what it is; note: a second line, such as the type of what it makes; facts: attributes, name and text
    origin: what it was made of, in the step before
    """

    id: str
    label: str
    note: str = ""
    region: str = ""
    style: str = COMPUTE
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    badges: tuple[Badge, ...] = ()
    keys: Keys = field(default_factory=Keys)
    facts: tuple[tuple[str, str], ...] = ()
    origin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Take any sequence for a tuple."""
        _settle(self, "inputs", "outputs", "badges", "facts", "origin")


@dataclass(frozen=True, slots=True)
class Region:
    """A region of operations, which can be closed to one box; `parent`: the region around it ("": the outermost)."""

    id: str
    label: str
    parent: str = ""
    badges: tuple[Badge, ...] = ()
    keys: Keys = field(default_factory=Keys)
    facts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Take any sequence for a tuple."""
        _settle(self, "badges", "facts")


@dataclass(frozen=True, slots=True)
class Edge:
    """A value on its way: from a node (or region) to a node (or region); port: the value's identity."""

    source: str
    target: str
    style: str = DATA
    port: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, edges and regions; the ends of each edge are there, and so is each region that something stands in."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    regions: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        """Take any sequence for a tuple."""
        _settle(self, "nodes", "edges", "regions")

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the graph, in words."""
        regions = {region.id: region for region in self.regions}
        known = {node.id for node in self.nodes}
        if len(known) + len(regions) != len(self.nodes) + len(self.regions) or known & regions.keys():
            yield "two nodes or regions have one identity"
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in known and end not in regions:
                    yield f"an edge ends at {end!r}, which is not there"
        yield from _unknown_styles((node.style for node in self.nodes), STYLES)
        yield from _unknown_styles((edge.style for edge in self.edges), EDGES)
        for place in [node.region for node in self.nodes] + [region.parent for region in self.regions]:
            if place and place not in regions:
                yield f"something stands in the region {place!r}, which is not there"
        for region in self.regions:
            seen, at = {region.id}, region.parent
            while at in regions:
                if at in seen:
                    yield f"the region {region.id!r} stands in itself"
                    break
                seen.add(at)
                at = regions[at].parent


def _unknown_styles(used: Iterable[str], known: Mapping[str, str]) -> Iterator[str]:
    for style in dict.fromkeys(used):
        if style not in known:
            yield f"there is no style {style!r} (styles: {', '.join(known)})"


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Change of a node or region in a step: "added", "removed", "changed" or "moved", and what differs."""

    id: str
    kind: str
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Take any sequence for a tuple."""
        _settle(self, "fields")


@dataclass(frozen=True, slots=True)
class GraphStep:
    """The graph after one step, such as a pass: its name, and what it changed.

    told: the changes in words, as other views count them; "": they are counted by what is drawn
    """

    name: str
    graph: Graph
    changes: tuple[NodeChange, ...] = ()
    told: str = ""

    def __post_init__(self) -> None:
        """Take any sequence for a tuple."""
        _settle(self, "changes")


@dataclass(frozen=True, slots=True)
class GraphModel:
    """One graph in one or more steps, of which `first` is shown at first.

    group: views of equal groups share a selection, see `base.selection`; "": it is alone
    legend: kinds of badges, and what each says; program: in which the numbers in `Keys.ops` count
    """

    title: str
    steps: tuple[GraphStep, ...]
    first: int = 0
    group: str = ""
    legend: Mapping[str, str] = field(default_factory=dict[str, str])
    program: str = ""

    def __post_init__(self) -> None:
        """Take any sequence for a tuple.  Raise ValueError for a model without steps, or with a graph that is none."""
        _settle(self, "steps")
        if not 0 <= self.first < len(self.steps):
            raise ValueError(f"the graph {self.title!r} has {len(self.steps)} steps, and no step {self.first}")
        for step in self.steps:
            for problem in step.graph.problems():
                raise ValueError(f"{self.title}: {problem}")


def graph_of(nodes: Sequence[Node], edges: Sequence[Edge], regions: Sequence[Region] = ()) -> Graph:
    """Return a graph without the regions that nothing stands in, and with each edge once."""
    used = {node.region for node in nodes}
    parents = {region.id: region.parent for region in regions}
    for place in list(used):
        at = place
        while at := parents.get(at, ""):
            used.add(at)
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    kept = tuple(region for region in regions if region.id in used or region.id in ends)
    return Graph(tuple(nodes), tuple(dict.fromkeys(edges)), kept)
