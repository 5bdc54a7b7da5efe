"""A trace: the graph that is being captured while a Python function runs on tracers."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tessera.core.base.dtypes import DType, from_numpy
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.errors.call_site import call_place, call_span
from tessera.core.errors.catalog import CannotTrace
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import UNKNOWN_SOURCE, Body, Graph, Origin, Tensor, Value
from tessera.core.graph.numerics import Numerics
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.program.program import Attribute
from tessera.graphs.operands.host_number import HostNumber, NumberInput
from tessera.graphs.operands.index_bounds import IndexBound, same_integers
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import contiguous_transpose, is_torch
from tessera.runtime.memory.operands import operand


class TraceBuilder(GraphBuilder):
    """Appends the nodes of a capture, each with the place of the user's code that called for it."""

    def add(
        self, op: str, operands: Sequence[Value], body: Body = None, name: str = "", **attributes: Attribute
    ) -> Value:
        """Append one node and return its result.  Raises IllTyped."""
        span = call_span() if self.origin.composite else NOWHERE
        if span in (NOWHERE, self.span):
            return super().add(op, operands, body, name, **attributes)
        with self.within(span=span):
            return super().add(op, operands, body, name, **attributes)


@dataclass(eq=False)
class Trace:
    """One capture.

    captured: arrays that the function uses without taking them as arguments; they become further inputs
    numbers: of the host, which Python computes for each call; they become inputs after all others
    bounds: of values that pick among elements: the lowest index, how many elements there are, and the place
    parent: the capture around this one: what it computes can be used here
    takes_launches: whether a kernel that is launched on its values becomes part of the graph
    """

    builder: GraphBuilder = field(default_factory=TraceBuilder)
    inputs: list[Value] = field(default_factory=list[Value])
    captured: list[object] = field(default_factory=list[object])
    numbers: list[NumberInput] = field(default_factory=list[NumberInput])
    bounds: dict[tuple[Value, int, int], Span] = field(default_factory=dict[tuple[Value, int, int], Span])
    source: Source = UNKNOWN_SOURCE
    parent: "Trace | None" = None
    takes_launches: bool = True
    _values: dict[int, Value] = field(default_factory=dict[int, Value])
    _number_values: dict[tuple[int, DType], Value] = field(default_factory=dict[tuple[int, DType], Value])
    _instances: dict[str, int] = field(default_factory=dict[str, int])
    _turned: dict[int, tuple[object, object]] = field(default_factory=dict[int, tuple[object, object]])

    def input(self, kind: Tensor, name: str, numerics: Numerics | None = None) -> Value:
        """Add an input.

        numerics: of the array that these are the codes of
        """
        value = Value(kind, name, NOWHERE, numerics)
        self.inputs.append(value)
        return value

    def capture(self, array: object, kind: Tensor | None = None) -> Value:
        """Return the input that stands for an array that the function closed over: one for each array.

        kind: its type, where it is a value of a capture around this one
        """
        found = self._values.get(id(array))
        if found is None:
            kind = kind or tensor_of(array, "a captured array")
            found = self._values[id(array)] = Value(kind, f"c{len(self.captured)}")
            self.captured.append(array)
        return found

    def number(self, number: HostNumber, dtype: DType) -> Value:
        """Return the input that stands for a number of the host in a dtype: one for each."""
        key = (id(number), dtype)
        value = self._number_values.get(key)
        if value is None:
            value = self._number_values[key] = Value(Tensor(dtype, ()), f"n{len(self.numbers)}")
            self.numbers.append(NumberInput(number, dtype))  # which keeps the number, so that its id stays its own
        return value

    def picks(self, value: Value, lowest: int, extent: int) -> None:
        """Note that the integers of a value pick among `extent` elements: from 0, or from -extent."""
        self.bounds.setdefault((value, lowest, extent), call_span())

    def input_bounds(self, graph: Graph) -> tuple[IndexBound, ...]:
        """Return the bounds of inputs of the finished graph, which arrays are compared with when it is called."""
        numbers = {value: number for number, value in enumerate(graph.inputs)}
        bounds: list[IndexBound] = []
        for (value, lowest, extent), span in self.bounds.items():
            number = numbers.get(same_integers(value, graph.producers))
            if number is not None:
                bounds.append(IndexBound(number, lowest, extent, span))
        return tuple(bounds)

    @property
    def outermost(self) -> "Trace":
        """The capture that this one is in, over all levels."""
        return self if self.parent is None else self.parent.outermost

    def turned(self, array: object) -> object | None:
        """Return the transpose of a matrix with contiguous columns, such as `w.T`; None for other arrays.

        The transpose has contiguous rows, so kernels read it without a copy.
        """
        entry = self._turned.get(id(array))
        if entry is None:
            transpose = contiguous_transpose(array)
            if transpose is None:
                return None
            entry = self._turned[id(array)] = array, transpose  # the array is kept, so that its number stays its own
        return entry[1]

    def encloses(self, other: "Trace") -> bool:
        """Return whether `other` is a capture inside this one."""
        inner = other.parent
        while inner is not None and inner is not self:
            inner = inner.parent
        return inner is self

    @property
    def captured_values(self) -> list[Value]:
        """The inputs that stand for captured arrays, in the order of `captured`."""
        return list(self._values.values())

    @property
    def operators(self) -> int:
        """How many operators were called."""
        return sum(self._instances.values())

    @contextmanager
    def operator(self, name: str) -> Generator[None]:
        """Mark what is built inside the `with` as parts of one operator that the user called."""
        number = self._instances.get(name, 0)
        self._instances[name] = number + 1
        instance = f"{name}.{number}" if number else name
        path = (*self.builder.origin.composite, instance)
        span = call_span()
        if self.source is UNKNOWN_SOURCE:
            self.source = call_place()[1] or UNKNOWN_SOURCE
        span = self.builder.span if span == NOWHERE else span
        with self.builder.within(Origin(composite=path), span):
            yield

    def finish(self, name: str, outputs: list[Value]) -> Graph:
        """Return the graph; inputs that were captured come last, and then numbers of the host."""
        inputs = [*self.inputs, *self.captured_values, *self._number_values.values()]
        made = {value for node in self.builder.nodes for value in node.results}
        seen: set[Value] = set()
        for place, value in enumerate(outputs):
            if value not in made or value in seen:  # every output is an array of its own
                outputs[place] = self.builder.copy(value)
            seen.add(value)
        return self.builder.finish(name, inputs, outputs, self.source)


class _Active(threading.local):
    trace: Trace | None = None


_ACTIVE: Final = _Active()


def current_trace() -> Trace | None:
    """Return the capture that this thread is in, if any."""
    return _ACTIVE.trace


@contextmanager
def tracing(builder: GraphBuilder | None = None) -> Generator[Trace]:
    """Capture what is called inside the `with`; captures nest, the innermost one counts.

    builder: appends to a graph that is there already
    """
    before = _ACTIVE.trace
    _ACTIVE.trace = Trace(parent=before) if builder is None else Trace(builder, parent=before)
    try:
        yield _ACTIVE.trace
    finally:
        _ACTIVE.trace = before


def trace_of(*_: object) -> Trace:
    """Return the graph that is being captured.  Raises CannotTrace where none is."""
    found = current_trace()
    if found is None:
        raise CannotTrace(
            "no graph is being captured here", hint="use values of a graph in the function that it is captured from"
        )
    return found


def is_operand(value: object) -> bool:
    """Return whether `value` is an array of any library, one without axes included."""
    return isinstance(value, np.ndarray | MeshArray) or is_array(value)


_TYPES: Final[dict[tuple[object, ...], Tensor]] = {}
"""Types of arrays that were seen, by dtype, shape and layout as their library has them."""
_MOST_TYPES: Final = 4096


def tensor_of(array: object, name: str) -> Tensor:
    """Return the type of an array of any library, or of a number."""
    key: tuple[object, ...] = ()
    if type(array) is np.ndarray:
        key = (array.dtype, array.shape)
    elif is_torch(array):
        key = (array.dtype, array.shape, array.layout)
    elif isinstance(array, bool | int | float):
        dtype = from_numpy(np.dtype(type(array)))
        assert dtype is not None
        return Tensor(dtype, ())
    elif isinstance(array, MeshArray):
        return Tensor(array.type.dtype, array.type.shape)
    found = _TYPES.get(key)
    if found is None:
        described = operand(array, name)
        found = Tensor(described.dtype, described.shape)
        if key:
            if len(_TYPES) >= _MOST_TYPES:
                _TYPES.clear()
            _TYPES[key] = found
    return found
