"""Functions that were captured for arguments of one kind, ready to be called again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Final, cast
from weakref import ref

from tessera.core.graph.expr import Number
from tessera.core.graph.graph import Graph, Routine, Tensor
from tessera.graphs.executable import Executable
from tessera.graphs.execution.supply import NumberMemory
from tessera.graphs.execution.torch_gradients import recorded, requires_gradients
from tessera.graphs.known_executables import executable_of
from tessera.graphs.operands.host_number import NeedsNumber, NumberInput
from tessera.graphs.operands.index_bounds import IndexBound, first_outside, require_inside
from tessera.graphs.operands.same_program import same_program
from tessera.graphs.structure import Static, Structure, matcher, number_places, numbers_in
from tessera.kernels.closures.closed_over import ClosedOver
from tessera.kernels.closures.snapshot import Closure, never
from tessera.lowering.autodiff import reverse

_SEVERAL: Final = 3
_RECENT: Final = 64
"""Captures that are kept for functions that are made anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A function captured for one kind of arguments.

    graph: its inputs are the arguments' arrays, then the captured ones, then the numbers; structure: of the result
    captured: arrays that it uses without taking them as arguments
    numbers: that Python computes of the numbers among the arguments of each call
    bounds: of the inputs that pick elements
    """

    graph: Graph
    structure: Structure
    captured: tuple[object, ...]
    numbers: tuple[NumberInput, ...] = ()
    bounds: tuple[IndexBound, ...] = ()

    def require_inside(self, arrays: Sequence[object]) -> None:
        """Raise OperandMismatch for an index in host memory that is outside of its axis."""
        if self.bounds:
            require_inside(self.bounds, arrays, self.graph.source)

    def is_for(self, numbers: Sequence[Number], exact: "Captured") -> bool:
        """Return whether it equals a capture that has these numbers as literals."""
        count = len(self.numbers)
        if len(self.graph.inputs) != len(exact.graph.inputs) + count or self.structure != exact.structure:
            return False
        inputs = self.graph.inputs[len(exact.graph.inputs) :]
        literals = {value: number.number.evaluate(numbers) for value, number in zip(inputs, self.numbers, strict=True)}
        return same_program(self.graph, literals, exact.graph)


class Pullbacks:
    """A graph and its derivatives applied backwards, for PyTorch: each is made when a backward pass asks for it."""

    def __init__(self, graph: Graph, executable: Executable) -> None:
        self.graph, self.executable = graph, executable
        self._pullbacks: dict[tuple[int, ...], Pullbacks] = {}

    def __call__(self, *arrays: object) -> tuple[object, ...]:
        """Run the graph; PyTorch records it where one of the arrays is a tensor that requires a gradient."""
        if requires_gradients(arrays):
            return recorded(self.executable, self.pull, arrays)
        return self.executable(*arrays)

    def pull(self, arrays: Sequence[object], cotangents: Sequence[object], wrt: tuple[int, ...]) -> tuple[object, ...]:
        """Return the cotangents of the inputs that `wrt` numbers.

        cotangents: one per output; those of outputs that are integers are not read
        """
        pullback = self._pullbacks.get(wrt)
        if pullback is None:
            derived = reverse.vjp(self.graph, wrt)
            graph = replace(derived, outputs=derived.outputs[len(self.graph.outputs) :])
            executable = executable_of(graph, self.executable.options, self.executable.algebra)
            pullback = self._pullbacks[wrt] = Pullbacks(graph, executable)
        floats = [each for each, value in zip(cotangents, self.graph.outputs, strict=True) if value.type.dtype.is_float]
        return pullback(*arrays, *floats)


@dataclass(frozen=True, eq=False)
class Ready:
    """A captured function made ready for arguments of one kind.

    closed_over: what else it read; None where that cannot be compared, and it is captured again at each call
    unchanged: whether it would read the same now
    pullbacks: none, or those of its graph; general: it takes numbers as inputs
    """

    structure: Structure
    types: tuple[Tensor, ...]
    captured: Captured
    executable: Executable
    closed_over: ClosedOver | None
    unchanged: Callable[[], bool]
    pullbacks: list[Pullbacks] = field(default_factory=list[Pullbacks])
    general: bool = False

    def elements(self, numbers: Sequence[Number], arrays: Sequence[object]) -> Sequence[object]:
        """Compute the inputs that are numbers.  Raises NeedsNumber while launches are recorded."""
        elements = [each.element(numbers) for each in self.captured.numbers]
        return self._memory(arrays, elements, kept=requires_gradients(arrays))

    @cached_property
    def _memory(self) -> NumberMemory:
        return NumberMemory([each.dtype for each in self.captured.numbers])

    def __call__(self, leaves: Sequence[object], structure: Structure) -> tuple[object, ...]:
        """Run on the arrays of the arguments; PyTorch records it where one of them requires a gradient.

        structure: of the arguments, which has their numbers.  Raises NeedsNumber for these while a graph is recorded.
        """
        arrays = (*leaves, *self.captured.captured)
        if self.captured.numbers:
            numbers = numbers_in(self.structure, structure)
            assert numbers is not None
            arrays = (*arrays, *self.elements(numbers, arrays))
        self.captured.require_inside(arrays)
        if not requires_gradients(arrays):
            return self.executable(*arrays)
        if not self.pullbacks:
            self.pullbacks.append(Pullbacks(self.captured.graph, self.executable))
        return self.pullbacks[0](*arrays)

    def fits(self, structure: Structure, types: Sequence[Tensor]) -> bool:
        """Return whether it matches these arguments and the closure is unchanged."""
        if self.types != types:
            return False
        if self.structure != structure and (not self.general or numbers_in(self.structure, structure) is None):
            return False
        return self.unchanged()

    def now(self, closure: Closure) -> "Ready | None":
        """Return it with the arrays that the function closes over now; None where it is to be captured again."""
        closed_over = None if self.closed_over is None else self.closed_over.now(closure)
        if closed_over is None:
            return None
        captured = replace(self.captured, captured=closed_over.arrays)
        return replace(self, captured=captured, closed_over=closed_over, unchanged=closed_over.unchanged)


@dataclass(frozen=True, slots=True, eq=False)
class _Recent:
    """A capture without its arrays; the table of executables keeps the executable alive."""

    captured: Captured
    executable: "ref[Executable]"
    closed_over: ClosedOver


class RecentCaptures:
    """Captures of functions that are made anew from the same text, as `tessera.grad(loss)` inside of a step is.

    No arrays are kept, and nothing that calls functions of the host, which may hold some.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[object, ...], _Recent] = OrderedDict()

    def add(self, key: tuple[object, ...], ready: Ready) -> None:
        """Keep what was made for a key that determines it."""
        closed_over = None if ready.closed_over is None else ready.closed_over.without_arrays()
        native = any(isinstance(node.body, Routine) and node.body.native for node in ready.captured.graph.walk())
        if closed_over is None or native:
            return
        recent = _Recent(replace(ready.captured, captured=()), ref(ready.executable), closed_over)
        with self._lock:
            self._recent[key] = recent
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def find(
        self, key: tuple[object, ...], structure: Structure, types: tuple[Tensor, ...], closure: Closure
    ) -> Ready | None:
        """Return the capture of an equal function, with the arrays of this closure."""
        with self._lock:
            recent = self._recent.get(key)
            if recent is None:
                return None
            self._recent.move_to_end(key)
        executable = recent.executable()
        if executable is None:
            return None
        return Ready(structure, types, recent.captured, executable, recent.closed_over, never).now(closure)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._recent.clear()


RECENT_CAPTURES: Final = RecentCaptures()


class VaryingNumbers:
    """Note the Python numbers among the arguments of one kind: those that were several become inputs of the graph.

    A switch has two values, and is part of the program for both.
    """

    def __init__(self) -> None:
        self._values: list[set[Static]] = []
        self._refused: set[tuple[int, ...]] = set()

    def varying(self, numbers: Sequence[Static]) -> tuple[int, ...]:
        """Note the numbers of a call, and return the positions of the varying ones; none where that was refused."""
        if not self._values:
            self._values = [set() for _ in numbers]
        for values, number in zip(self._values, numbers, strict=True):
            if len(values) < _SEVERAL:
                values.add(number)
        varying = tuple(number for number, values in enumerate(self._values) if len(values) >= _SEVERAL)
        return () if varying in self._refused else varying

    def refuse(self, varying: tuple[int, ...]) -> None:
        """Capture the function for each number from now on: it depends on one of them."""
        self._refused.add(varying)


class QuickCall:
    """Calls like an earlier one on a GPU: arguments are compared, and nothing is looked up."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self._match = matcher(ready.structure)
        self._numbers = number_places(ready.structure) if ready.general else []

    def results(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> tuple[object, ...] | None:
        """Return the results for arguments like those; None, having done nothing, for any others."""
        leaves: list[object] = []
        ready = self.ready
        if not (ready.executable.called and self._match((arguments, keywords), leaves)):
            return None
        numbers: list[Number] = []
        if self._numbers:
            numbers = cast("list[Number]", list(compress(leaves, self._numbers)))
            leaves = [each for each, is_number in zip(leaves, self._numbers, strict=True) if not is_number]
        arrays = (*leaves, *ready.captured.captured)
        if not ready.unchanged() or requires_gradients(arrays):
            return None
        if ready.captured.numbers:
            try:
                arrays = (*arrays, *ready.elements(numbers, arrays))
            except NeedsNumber:
                return None
        if first_outside(ready.captured.bounds, arrays) is not None:  # of an array of another shape, perhaps
            return None
        return ready.executable.again(arrays)
