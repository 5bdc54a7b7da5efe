"""Plans: which nodes of a graph are computed by one kernel, over which axes, and in which order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import Affine
from tessera.core.graph.infer import numbers
from tessera.core.schedule.cascade import Cascade

ELEMENTS: Final = "elements"
"""A kernel with one lane an element: maps, views, gathers, joins."""
MAPS: Final = "maps"
"""A kernel of tiles without reductions: maps of arrays that lie in boxes."""
SCATTER: Final = "scatter"
"""A kernel with one lane a column, which adds rows at their indices, one after the other."""
ROWS: Final = "rows"
"""A kernel that keeps whole rows in registers: reductions along one axis, and maps around them."""
PRODUCT: Final = "product"
"""A kernel of blocks of a contraction, with maps of the result as its epilogue."""
CASCADE: Final = "cascade"
"""A kernel of one loop that computes reductions which use each other: attention, a product behind a normalization."""
CALL: Final = "call"
"""No kernel: the host calls a library or a function, and waits for nothing else."""

ROW_LIMIT: Final = 16384
"""Longest row kept as one tile: 16384 f32 are 32 registers in each of 512 lanes.

It does not depend on the machine: it decides which kernels there are.
"""


def is_long(node: Node) -> bool:
    """Return whether a node reduces more elements than a kernel keeps as one tile."""
    if node.op != "reduce":
        return False
    shape = node.operands[0].type.shape
    return prod(shape[axis] for axis in numbers(node.attributes["axes"])) > ROW_LIMIT and 0 not in shape


@dataclass(frozen=True, slots=True)
class Access:
    """One array as a group sees it.

    shape: of the array, with adjacent axes joined where the group does not tell them apart
    index: of each of the array's axes, of the group's axes; padded: whether it may lie outside, where there is 0
    steps: in which blocks are read along each of the array's axes; it is a multiple of these.  (): steps of one
    """

    shape: tuple[int, ...]
    index: tuple[Affine, ...]
    padded: bool = False
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CascadeLoop:
    """The loop of a cascade in a group.

    axis: that the loop goes over; inner: axes that contractions inside of it sum over; columns: see `Form`
    reductions: the nodes whose results it gives; atoms: the values that the region's atoms are
    ended: numbers of the atoms that are absent behind the end of the axis
    around: axes that are summed over too, element by element, in loops around this one
    """

    cascade: Cascade
    axis: int
    inner: tuple[int, ...]
    columns: tuple[int, ...]
    reductions: tuple[Node, ...]
    atoms: tuple[Value, ...]
    ended: frozenset[int]
    around: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The nodes that one kernel computes.

    kind: the shape of the kernel, one of the above
    members: nodes in order; views, indices and constants may be members of several groups
    inputs, outputs: values in memory
    extents: of the group's axes; axes: of each member's results, which they are, in order
    loads: how the values that members read from memory lie there, inputs and views of inputs; stores: the outputs
    reduced: the axes that reductions remove
    loop: of a cascade; in_place: outputs that are written where an input lies, which is used for the last time
    """

    ident: int
    kind: str
    members: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    extents: tuple[int, ...]
    axes: Mapping[Value, tuple[int, ...]]
    loads: Mapping[Value, Access]
    stores: Mapping[Value, Access]
    reduced: tuple[int, ...] = ()
    loop: "CascadeLoop | None" = None
    in_place: Mapping[Value, Value] = field(default_factory=dict[Value, Value])

    @property
    def loaded_as(self) -> Mapping[Value, Value]:
        """The value that each one which is read from memory is loaded as: the first of the same elements."""
        arrays = {node.result: node.operands[0] for node in self.members if node.op == "view"}
        first: dict[tuple[Value, Access], Value] = {}
        plain = self.kind in (ELEMENTS, SCATTER)
        return {
            value: first.setdefault((value if plain else arrays.get(value, value), access), value)
            for value, access in self.loads.items()
        }

    @property
    def name(self) -> str:
        """A name for the kernel: the operators that the user called, in order."""
        parts = dict.fromkeys(node.origin.composite[-1].split(".")[0] for node in self.members if node.origin.composite)
        return "_".join(parts)[:60] or self.kind


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """The place of a value in the arena of a plan.

    offset, bytes: in the arena; alive: the first and the last group that need it
    replaces: the value whose place it takes, which the group that writes it is the last to read: in place
    """

    value: Value
    offset: int
    bytes: int
    alive: tuple[int, int]
    replaces: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A graph and the groups that compute it, each after those whose outputs it reads.

    aliases: values that are others in another shape, in the same memory
    buffers: places of what passes between the groups, in one arena; the caller has inputs and outputs
    again: numbers of the nodes that every kernel may compute for itself
    """

    graph: Graph
    groups: tuple[Group, ...]
    aliases: Mapping[Value, Value]
    again: frozenset[int] = frozenset()
    buffers: tuple[Buffer, ...] = ()

    @property
    def arena_bytes(self) -> int:
        """The bytes of the arena: the peak of what passes between the groups."""
        return max((buffer.offset + buffer.bytes for buffer in self.buffers), default=0)

    def root(self, value: Value) -> Value:
        """Return the value whose memory a value has."""
        while value in self.aliases:
            value = self.aliases[value]
        return value
