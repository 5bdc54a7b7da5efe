"""Capture the bodies of loops and branches: functions on arrays as graphs inside of the graph that is being captured.

What a body uses of the graph around it becomes a further operand of the node that holds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from tessera.core.base.dtypes import DType, boolean, f32, i64
from tessera.core.base.source import NOWHERE, Note, Span
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.graphs.function import capture
from tessera.graphs.structure import Branch, Leaf, Static, Structure, flatten, names_of, unflatten
from tessera.graphs.trace import Trace, trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.runtime.arrays.host import plain


@dataclass(frozen=True, slots=True)
class Arrays:
    """Nested arrays taken apart; numbers among them are arrays of one element.

    numbers: which of them were Python numbers: their dtype is the one that fits
    """

    structure: Structure
    values: tuple[Tracer, ...]
    numbers: frozenset[int] = frozenset()

    @property
    def types(self) -> tuple[Tensor, ...]:
        """The type of each array."""
        return tuple(each.value.type for each in self.values)

    def put_together(self, values: Sequence[object]) -> object:
        """Return other values, arranged as these are."""
        left = iter(values)
        return unflatten(self.structure, lambda: next(left))


def arrays_in(value: object, trace: Trace, like: Sequence[Tensor] = ()) -> Arrays:
    """Take nested arrays apart.  like: types that numbers take, in the order of the arrays.

    Raises OperandMismatch for what is neither array nor number.
    """
    leaves: list[object] = []
    left = iter(leaves)
    found: list[Tracer] = []
    numbers: set[int] = set()

    def arranged(structure: Structure) -> Structure:
        if isinstance(structure, Branch):
            return Branch(structure.kind, structure.names, tuple([arranged(child) for child in structure.children]))
        number = plain(structure.value) if isinstance(structure, Static) else None
        if isinstance(number, bool | int | float):
            place = len(found)
            fits = place < len(like) and like[place].shape == ()
            numbers.add(place)
            found.append(_number(number, like[place].dtype if fits else None, trace))
            return Leaf()
        if isinstance(structure, Leaf):
            found.append(as_tracer(next(left), trace))
            return Leaf()  # where it lies outside of the graph is no part of how a body's arrays are arranged
        return structure

    taken = flatten(value, leaves)
    return Arrays(arranged(taken), tuple(found), frozenset(numbers))


def _number(value: bool | float, dtype: DType | None, trace: Trace) -> Tracer:
    kind = dtype or (boolean if isinstance(value, bool) else i64 if isinstance(value, int) else f32)
    return Tracer(trace, trace.builder.full(float(value) if kind.is_float else value, kind, ()))


@dataclass(frozen=True, slots=True)
class CapturedBody:
    """A body.

    graph: its inputs are those that were asked for, then what it uses of the graph around it; captured: these
    result: how its outputs are arranged; several: how many of them each part of the result has
    """

    graph: Graph
    captured: tuple[object, ...]
    result: Structure
    numbers: frozenset[int]

    @property
    def types(self) -> tuple[Tensor, ...]:
        """The types of the outputs."""
        return tuple(value.type for value in self.graph.outputs)

    def taking(self, constants: Sequence[Value], count: int) -> Graph:
        """Return the graph with its captured inputs first, among those of `constants`.

        count: how many inputs were asked for.  Inputs that this body has no use for are inputs all the same.
        """
        asked, mine = self.graph.inputs[:count], set(self.graph.inputs[count:])
        fresh = tuple(value if value in mine else Value(value.type, value.name) for value in constants)
        return _with_inputs(self.graph, (*fresh, *asked))


def _with_inputs(graph: Graph, inputs: Sequence[Value]) -> Graph:
    return Graph(graph.name, tuple(inputs), graph.nodes, graph.outputs, graph.source, graph.span)


def capture_body(
    function: Callable[..., object], arguments: Sequence[object], types: Sequence[Tensor], like: Sequence[Tensor] = ()
) -> CapturedBody:
    """Capture a function of arrays that are arranged as `arguments` are (structures), of these types.

    like: types that Python numbers in its result take.  Raises CannotTrace, and the mistakes of operators.
    """
    numbers: frozenset[int] = frozenset()
    result: Structure = Leaf()

    def body(*given: object) -> tuple[Tracer, ...]:
        nonlocal numbers, result
        returned = arrays_in(function(*given), trace_of(), like)
        numbers, result = returned.numbers, returned.structure
        return returned.values

    structures = tuple(cast("Sequence[Structure]", arguments))
    whole = Branch(tuple, (), (Branch(tuple, (), structures), Branch(dict, (), ())))
    name = getattr(function, "__name__", "body")
    name = name if name.isidentifier() else "body"
    labels = [each for number, part in enumerate(structures) for each in names_of(part, f"a{number}")]
    body.__wrapped__ = function  # type: ignore[attr-defined]  # its text is the user's
    found = capture(body, whole, types, labels, name)
    return CapturedBody(found.graph, found.captured, result, numbers)


def place_of(graph: Graph, number: int) -> Span:
    """Return the place in the user's text that makes an output; NOWHERE where it is not known."""
    value = graph.outputs[number]
    maker = graph.producers.get(value)
    while maker is not None and maker.op == "view" and maker.span == NOWHERE and maker.operands:
        maker = graph.producers.get(maker.operands[0])
    return NOWHERE if maker is None else maker.span


def mismatch(
    message: str, first: tuple[Graph, int], second: tuple[Graph, int] | None, what: str, hint: str
) -> OperandMismatch:
    """Return a mistake with the places of one or two outputs of bodies.  what: about the second one."""
    error = OperandMismatch(message, place_of(*first), hint)
    error.with_source(first[0].source)
    if second is not None:
        error.notes = (Note(what, place_of(*second)),)
    return error


def listed(structure: Structure, types: Sequence[Tensor], name: str) -> str:
    """Return nested types as people read them: `carry_h: f32[4], carry_c: f32[4]`."""
    labels = names_of(structure, name)
    if len(labels) != len(types):
        return ", ".join(map(str, types)) or "nothing"
    return ", ".join(f"{label}: {kind}" for label, kind in zip(labels, types, strict=True)) or "nothing"
