"""Layouts of all steps of a graph at once: what is in two steps keeps its place.

Each region is laid out on its own, the innermost first, as the union of what it holds in several steps.  A new layout
begins where that would be of no use: where a region lost or got regions, or less than half of it is the same.  There
are two layouts, one of what is shown at first ("main") and one with index arithmetic and constants as well ("all").
"""

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.viz.graph import dot
from tessera.viz.graph.layered import acyclic, layered
from tessera.viz.graph.model import CARRIED, FOLDED, Graph, GraphStep, Node, Region
from tessera.viz.graph.placing import COLUMN_GAP, ROW_GAP, Item, Rows, Scope, Slot, extent
from tessera.viz.graph.sizes import Box, box_of, closed_box, head_of, largest

MAIN, ALL = "main", "all"
GRAPHVIZ, LAYERED = "graphviz", "layered"
MOST_FOR_DOT: Final = 700
"""Boxes and links of a scope that are given to `dot`: for more, the layered layout is several times as quick."""
INSET: Final = 14
"""Pixels between the border of a region and what is in it."""
_SAME: Final = 0.5
Engine = Callable[[Sequence[Scope]], list[Rows]]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The layout of a region from the step `first` on, its extent, and the links that it was made for."""

    first: int
    rows: Rows
    width: float
    height: float
    links: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Layout:
    """A layout of every region; "" is the outermost.

    engine: what made it
    boxes: sizes of nodes, the same in every step, and heads: of open regions
    """

    engine: str
    boxes: dict[str, Box] = field(default_factory=dict[str, Box])
    heads: dict[str, Box] = field(default_factory=dict[str, Box])
    closed: dict[str, Box] = field(default_factory=dict[str, Box])
    variants: dict[str, dict[str, tuple[Epoch, ...]]] = field(default_factory=dict[str, dict[str, tuple[Epoch, ...]]])


def lay_out(steps: Sequence[GraphStep], engine: str = "") -> Layout:
    """Lay out the graphs of all steps; engine: "graphviz", "layered", or "" for the better one that there is."""
    chosen = engine or (GRAPHVIZ if dot.is_installed() else LAYERED)
    layout = Layout(chosen)
    _measure(layout, steps)
    has_folded = any(node.style in FOLDED for step in steps for node in step.graph.nodes)
    for variant in (MAIN, ALL) if has_folded else (MAIN,):
        layout.variants[variant] = _Variant(layout, steps, variant).regions()
    return layout


def _measure(layout: Layout, steps: Sequence[GraphStep]) -> None:
    """Take sizes that suit a node in every step, so that it keeps its size too."""
    nodes: dict[str, set[Node]] = defaultdict(set)
    regions: dict[str, set[Region]] = defaultdict(set)
    for step in steps:
        for node in step.graph.nodes:
            nodes[node.id].add(node)
        for region in step.graph.regions:
            regions[region.id].add(region)
    layout.boxes = {key: largest(map(box_of, found)) for key, found in nodes.items()}
    layout.heads = {key: largest(map(head_of, found)) for key, found in regions.items()}
    layout.closed = {key: largest(map(closed_box, found)) for key, found in regions.items()}


@dataclass(slots=True)
class _Content:
    """Contents of a region in one or more steps: nodes and regions in order, and links between them."""

    first: int
    last: int
    nodes: dict[str, None] = field(default_factory=dict[str, None])
    regions: dict[str, None] = field(default_factory=dict[str, None])
    order: dict[str, None] = field(default_factory=dict[str, None])
    links: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])

    def suits(self, other: "_Content") -> bool:
        """Return whether one layout does for both."""
        if self.regions.keys() != other.regions.keys():
            return False
        both = len(self.nodes.keys() & other.nodes.keys())
        return both >= _SAME * max(len(self.nodes), len(other.nodes))

    def add(self, other: "_Content") -> None:
        """Add what a later step holds, new things behind what they are behind there."""
        self.last = other.last
        self.order = dict.fromkeys(_merged(list(self.order), list(other.order)))
        self.nodes |= other.nodes
        self.regions |= other.regions
        self.links |= other.links


def _merged(old: Sequence[str], new: Sequence[str]) -> Iterable[str]:
    behind: dict[str, list[str]] = defaultdict(list)
    known, last = set(old), ""
    for key in new:
        if key in known:
            last = key
        else:
            behind[last].append(key)
    yield from behind[""]
    for key in old:
        yield key
        yield from behind[key]


class _Variant:
    """Lays out one variant, from the innermost regions outwards."""

    def __init__(self, layout: Layout, steps: Sequence[GraphStep], variant: str) -> None:
        self._layout, self._variant = layout, variant
        self._contents: dict[str, list[_Content]] = defaultdict(list)
        self._depths: dict[str, int] = {"": 0}
        for number, step in enumerate(steps):
            self._read(number, step.graph)

    def _read(self, number: int, graph: Graph) -> None:
        parents = {region.id: region.parent for region in graph.regions}
        for region in parents:
            self._depths[region] = max(self._depths.get(region, 0), len(_around(region, parents)) - 1)
        for place, content in self._contents_of(number, graph, parents).items():
            known = self._contents[place]
            if known and known[-1].suits(content) and known[-1].last == number - 1:
                known[-1].add(content)
            else:
                known.append(content)

    def _contents_of(self, number: int, graph: Graph, parents: Mapping[str, str]) -> dict[str, _Content]:
        here: dict[str, _Content] = defaultdict(lambda: _Content(number, number))
        shown = [node for node in graph.nodes if self._variant == ALL or node.style not in FOLDED]
        inside = {node.id: node.region for node in shown} | dict(parents)
        for node in shown:
            for key, place in _upwards(node.id, inside):
                here[place].order[key] = None
            here[node.region].nodes[node.id] = None
        for region, place in parents.items():
            here[place].regions[region] = None
            here[place].order.setdefault(region)
        for edge in graph.edges:
            lifted = lift(edge.source, edge.target, inside) if edge.style != CARRIED else None
            if lifted is not None:
                here[lifted[0]].links[lifted[1:]] = None
        return here

    def regions(self) -> dict[str, tuple[Epoch, ...]]:
        """Return the layouts of all regions."""
        done: dict[str, list[Epoch]] = defaultdict(list)
        for depth in range(max(self._depths.values()), -1, -1):
            scopes = [
                (place, content, self._scope(content, done))
                for place, found in self._contents.items()
                if self._depths.get(place, 0) == depth
                for content in found
            ]
            for (place, content, scope), rows in zip(scopes, self._run([one[2] for one in scopes]), strict=True):
                width, height = extent(rows, {item.id: item for item in scope.items})
                done[place].append(Epoch(content.first, rows, width, height, tuple(acyclic(scope))))
        return {place: tuple(found) for place, found in done.items()}

    def _scope(self, content: _Content, done: Mapping[str, Sequence[Epoch]]) -> Scope:
        items: list[Item] = []
        for key in content.order:
            box = self._layout.boxes.get(key) if key in content.nodes else self._open(key, content, done)
            items.append(Item(key, box.width, box.height) if box is not None else Item(key, 60, 30))
        known = {item.id for item in items}
        return Scope(tuple(items), tuple(link for link in content.links if link[0] in known and link[1] in known))

    def _open(self, region: str, content: _Content, done: Mapping[str, Sequence[Epoch]]) -> Box:
        head, epochs = self._layout.heads[region], done.get(region, ())
        ends = [*(epoch.first for epoch in epochs[1:]), content.last + 1]
        pairs = zip(epochs, ends, strict=False)
        seen = [each for each, end in pairs if each.first <= content.last and end > content.first]
        width = max((each.width for each in seen), default=0) + 2 * INSET
        height = max((each.height for each in seen), default=0) + head.height + 2 * INSET
        closed = self._layout.closed[region]
        return Box(max(width, head.width, closed.width), max(height, closed.height))

    def _run(self, scopes: Sequence[Scope]) -> list[Rows]:
        small = all(len(scope.items) + len(scope.links) <= MOST_FOR_DOT for scope in scopes)
        if self._layout.engine == GRAPHVIZ and small:
            try:
                return placed(scopes, dot.by_dot)
            except (OSError, subprocess.TimeoutExpired):
                self._layout.engine = LAYERED
        return placed(scopes, lambda each: [layered(scope) for scope in each])


def placed(scopes: Sequence[Scope], engine: Engine) -> list[Rows]:
    """Lay out scopes: `engine` what is joined, and what stands alone in rows below, as wide as the rest."""
    joined: list[Scope] = []
    for scope in scopes:
        ends = {end for link in scope.links for end in link}
        joined.append(Scope(tuple(item for item in scope.items if item.id in ends), scope.links))
    filled = [scope for scope in joined if scope.items]
    found = iter(engine(filled))
    rows = [next(found) if scope.items else () for scope in joined]
    return [_with_loose(scope, each, made) for scope, each, made in zip(scopes, joined, rows, strict=True)]


def _with_loose(scope: Scope, joined: Scope, rows: Rows) -> Rows:
    known = {item.id for item in joined.items}
    loose = [item for item in scope.items if item.id not in known]
    if not loose:
        return rows
    sizes = {item.id: item for item in scope.items}
    area = sum((item.width + COLUMN_GAP) * (item.height + ROW_GAP) for item in loose)
    widest = max(extent(rows, sizes)[0], 1.4 * area**0.5, *(item.width for item in loose))
    added: list[list[Slot]] = [[]]
    at = 0.0
    for item in loose:
        if added[-1] and at + item.width > widest:
            added.append([])
            at = 0.0
        added[-1].append(Slot(item.id, at + item.width / 2))
        at += item.width + COLUMN_GAP
    return (*rows, *map(tuple, added))


def _around(place: str, parents: Mapping[str, str]) -> list[str]:
    """Return a place and all that it stands in, the outermost ("") last."""
    found = [place]
    while found[-1]:
        found.append(parents.get(found[-1], ""))
    return found


def _upwards(key: str, inside: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    while key:
        yield key, inside.get(key, "")
        key = inside.get(key, "")


def lift(source: str, target: str, inside: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the region in which both ends stand, and what they stand in there; None where one holds the other.

    inside: the region of each node and region that is shown
    """
    if source not in inside or target not in inside:
        return None
    if inside[source] == inside[target]:  # as most are
        return None if source == target else (inside[source], source, target)
    mine, theirs = list(_upwards(source, inside)), list(_upwards(target, inside))
    places = {place: key for key, place in mine}
    for key, place in theirs:
        if place in places:
            return None if places[place] == key else (place, places[place], key)
    return None
