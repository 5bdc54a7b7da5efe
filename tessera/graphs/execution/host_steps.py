"""Steps of an executable that are no kernels: calls of routines, between the launches."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from tessera.core.base.source import NOWHERE, Source
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import WrongResult
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.schedule.plan import Group
from tessera.graphs.execution.frames import Memory, Workspace
from tessera.runtime.arrays.cupy_views import as_cupy, beside
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.memory.device_arrays import device_of
from tessera.runtime.memory.operands import Operand, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import HostCall, recording


@dataclass(frozen=True, slots=True, eq=False)
class RoutineStep:
    """Calls the routine of a group that is one `call`.  source: the text that the graph was captured from."""

    group: Group
    source: Source

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return False

    @property
    def node(self) -> Node:
        """The only node."""
        (node,) = self.group.members
        return node

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Compute the outputs, in arrays of the caller's library; inside of a capture, whenever the graph is launched.

        Raises WrongResult for a routine that returns something else than it declares.
        """
        routine, outputs = self.node.routine, self.group.outputs
        given = [memory[value] for value in self.node.operands]
        noted = recording()
        if noted is None and not routine.fills:
            for value, made in zip(self.node.results, self.results(given), strict=True):
                if value in outputs:
                    fits = _fits(made, allocate.like)
                    memory[value] = made if fits else placed(made, allocate(value), routine.name)
            return
        places = {value: allocate(value) for value in self.node.results if routine.fills or value in outputs}
        memory.update((value, place) for value, place in places.items() if value in outputs)
        if noted is None:
            self.results(given, places)
        else:
            noted.add(None, HostCall(routine.name, CapturedRoutine(self, given, places)))

    def results(
        self, given: Sequence[Operand[object]], places: Mapping[Value, Operand[object]] | None = None
    ) -> list[Operand[object]]:
        """Call the routine, and copy results to the places that are given; a routine that fills them computes there."""
        routine = self.node.routine
        with _on_stream_of(given, routine.name), self._named():
            if routine.fills:
                assert places is not None
                return self._filled(given, [places[value] for value in self.node.results])
            made = self._results(given)
            for value, each in zip(self.node.results, made, strict=True):
                if places is not None and value in places:
                    placed(each, places[value], routine.name)
            return made

    def _filled(self, given: Sequence[Operand[object]], places: Sequence[Operand[object]]) -> list[Operand[object]]:
        """Compute the results where they are to lie: nothing is copied."""
        node, routine = self.node, self.node.routine
        assert routine.run is not None
        # What passes between kernels of a call from NumPy lies on the device, and is computed on the host.
        buffers = [
            operand(np.empty(each.shape, each.dtype.numpy), each.name) if isinstance(each.value, DeviceArray) else each
            for each in places
        ]
        routine.run([_numeric(each, routine.name) for each in (*given, *buffers)], node.attributes)
        return [placed(*each, routine.name) for each in zip(buffers, places, strict=True)]

    @contextmanager
    def _named(self) -> Generator[None]:
        """Give mistakes the place of the operator in the user's text: in a graph; an operator alone is called there."""
        try:
            yield
        except TesseraError as mistake:
            if mistake.span == NOWHERE and len(self.node.origin.composite) > 1:
                mistake.span = self.node.span
                mistake.with_source(self.source)
            raise

    def _results(self, given: Sequence[Operand[object]]) -> list[Operand[object]]:
        node, routine = self.node, self.node.routine
        assert routine.run is not None
        arrays = [_on_host(each).value if routine.native else _numeric(each, routine.name) for each in given]
        made = [operand(each, routine.name) for each in routine.run(arrays, node.attributes)]
        found = [Tensor(each.dtype, each.shape) for each in made]
        declared = [value.type for value in node.results]
        if found != declared:
            what = [", ".join(map(str, types)) or "nothing" for types in (found, declared)]
            hint = "return arrays of the shapes and dtypes that shape= and dtype= tell"
            raise WrongResult(f"{routine.name} returns {what[0]}, and declares {what[1]}", hint=hint)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class CapturedRoutine:
    """A call of a routine in a captured graph, on the same arrays each time."""

    step: RoutineStep
    given: Sequence[Operand[object]]
    places: Mapping[Value, Operand[object]]

    def run(self) -> None:
        """Compute the results anew."""
        self.step.results(self.given, self.places)

    def cancel(self) -> None:
        """Do nothing: a library's routine ends by itself."""


@contextmanager
def _on_stream_of(arrays: Sequence[Operand[object]], name: str) -> Generator[None]:
    """Let a library work on the stream that the arrays' own library works on."""
    foreign = [each.value for each in arrays if each.on_device and not isinstance(each.value, DeviceArray)]
    device = device_of(foreign[:1])
    if device is None:
        yield
        return
    with beside(foreign[0], device, name):
        yield


def _on_host(array: Operand[object]) -> Operand[object]:
    """Return what the caller gave as NumPy's, and passes between kernels on a GPU, as NumPy's again."""
    return operand(array.value.get(), array.name) if isinstance(array.value, DeviceArray) else array


def _numeric(array: Operand[object], name: str) -> object:
    """Return an array as NumPy's, or as CuPy's where it lies on a GPU.  Raises LibraryMissing without CuPy."""
    found = _on_host(array)
    return as_cupy(found.value, name) if found.on_device else found.view


def _fits(made: Operand[object], like: Operand[object]) -> bool:
    """Return whether an array is one of the library and on the device of another, in C order."""
    same = library_of(made.value) == library_of(like.value) and made.on_device == like.on_device
    return same and made.contiguous


def placed(made: Operand[object], place: Operand[object], name: str) -> Operand[object]:
    """Return `place`, an array of any library, with the elements of another array."""
    if isinstance(place.value, DeviceArray):
        place.value.set(np.ascontiguousarray(made.view))
    elif place.on_device:
        as_cupy(place.value, name)[...] = as_cupy(made.value, name)
    else:
        np.copyto(place.view, made.view)
    return place
