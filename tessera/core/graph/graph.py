"""Graphs as immutable data: tensors, nodes, and whole graphs; `spec.py` is the table of the primitives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from tessera.core.base.dtypes import DType
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.graph.expr import Expr
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.numerics import Numerics
from tessera.core.program.program import Attribute

if TYPE_CHECKING:
    from tessera.core.graph.build import GraphBuilder

UNKNOWN_SOURCE = Source("<unknown>", "")


@dataclass(frozen=True, slots=True)
class Tensor:
    """The type of a value: element type and extents."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory, without gaps."""
        return self.size * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """One tensor of a graph.  Identity is the object; `name` is the user's word for it, where there is one.

    numerics: of the array that these are the codes of, packed where the format is
    """

    type: Tensor
    name: str = ""
    span: Span = NOWHERE
    numerics: Numerics | None = None


Value: TypeAlias = TensorValue
"""The word for it where no other values are about."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The history of a node.

    rule: the pass or rule that made it, "" for what was traced; parents: the nodes that it was made of
    composite: the operators that it is part of, outermost first: `("attention", "softmax.1")`
    """

    rule: str = ""
    parents: tuple[int, ...] = ()
    composite: tuple[str, ...] = ()


Body: TypeAlias = "Expr | IndexMap | Routine | tuple[Graph, ...] | None"
"""What some primitives hold besides attributes.

The function of a `map`, the map of a `view`, what a `call` calls, the graphs of a `loop`, a `while` or a `branch`.
"""

NodeAdjoint: TypeAlias = Callable[["GraphBuilder", "Node", Sequence[Value]], Sequence[Value | None]]
"""Appends the nodes of an adjoint: from the cotangents of the results that are floats to one an operand, or None."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Routine:
    """Describe what a `call` means: its results, its derivative, and what computes it.

    name: of the operator; library: what stands behind it, for people: "LAPACK, cuSOLVER"
    definition: the graph that it is, or else
    types: of the results, from those of the operands and the node's attributes; raises ValueError for what it refuses
    run: computes it on arrays
    native: whether `run` takes the caller's own arrays, such as PyTorch's, instead of those of NumPy or CuPy
    fills: whether `run` is given the arrays of its results behind its operands, and fills them
    adjoint: None for an operator without a derivative
    real: what a definition is over real numbers, where it rounds by itself: of operands before they were rounded
    """

    name: str
    library: str = ""
    types: Callable[[Sequence[Tensor], Mapping[str, Attribute]], Sequence[Tensor]] | None = None
    run: Callable[[Sequence[object], Mapping[str, Attribute]], Sequence[object]] | None = None
    definition: "Graph | None" = None
    native: bool = False
    fills: bool = False
    adjoint: NodeAdjoint | None = None
    real: "Graph | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation: `op` names a row of the table in `spec.py`.

    ident: its number, never used again in a graph and what is made of it; printed as `g17`
    """

    op: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    body: Body = None
    ident: int = 0
    origin: Origin = field(default_factory=Origin)
    span: Span = NOWHERE

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def expr(self) -> Expr:
        """The body of a `map`."""
        assert self.op == "map"
        return cast("Expr", self.body)

    @property
    def routine(self) -> Routine:
        """The body of a `call`."""
        assert isinstance(self.body, Routine)
        return self.body

    @property
    def graphs(self) -> "tuple[Graph, ...]":
        """The graphs that the body holds."""
        if isinstance(self.body, Routine):
            return (self.body.definition,) if self.body.definition is not None else ()
        return self.body if isinstance(self.body, tuple) else ()

    @property
    def index_map(self) -> IndexMap:
        """The body of a `view`."""
        assert isinstance(self.body, IndexMap)
        return self.body


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph.  nodes: each after those whose results it uses."""

    name: str
    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    source: Source = UNKNOWN_SOURCE
    span: Span = NOWHERE

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """The node that makes each value that is not an input."""
        return {value: node for node in self.nodes for value in node.results}

    @cached_property
    def users(self) -> Mapping[Value, tuple[Node, ...]]:
        """The nodes that use each value, in order, each once."""
        found: dict[Value, dict[Node, None]] = {}
        for node in self.nodes:
            for value in node.operands:
                found.setdefault(value, {})[node] = None
        return {value: tuple(nodes) for value, nodes in found.items()}

    @property
    def next_ident(self) -> int:
        """A number above those of all nodes, of bodies too."""
        return max((node.ident for node in self.walk()), default=-1) + 1

    def walk(self) -> Iterator[Node]:
        """Yield every node, those of bodies after the node that holds them."""
        for node in self.nodes:
            yield node
            for inner in node.graphs:
                yield from inner.walk()
