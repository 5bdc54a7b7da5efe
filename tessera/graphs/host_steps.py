"""Steps of an executable that are no kernels: calls of routines, between the launches."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tessera.core.base.source import NOWHERE, Source
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadCapture, WrongResult
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.schedule.plan import Group
from tessera.runtime.arrays.cupy_views import as_cupy, beside
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.memory.device_arrays import device_of
from tessera.runtime.memory.operands import Operand, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import recording

Memory: TypeAlias = dict[Value, Operand[object]]
Allocate: TypeAlias = Callable[[Value], Operand[object]]


@dataclass(frozen=True, slots=True, eq=False)
class RoutineStep:
    """Calls the routine of a group that is one `call`.  source: the text that the graph was captured from."""

    group: Group
    source: Source

    @property
    def node(self) -> Node:
        """The only node."""
        (node,) = self.group.members
        return node

    def run(self, memory: Memory, allocate: Allocate) -> None:
        """Compute the outputs, in arrays of the library of those that `allocate` makes.

        Raises WrongResult for a routine that returns something else than it declares, BadCapture inside of a capture:
        what a library allocates is not there again when a graph is launched.
        """
        node = self.node
        name = node.routine.name
        if recording() is not None:
            hint = "leave out capture_graph=True"
            raise at_call(
                BadCapture(f"{name} is called by the host, and cannot be part of a captured graph", hint=hint)
            )
        given = [memory[value] for value in node.operands]
        with _on_stream_of(given, name), self._named():
            for value, made in zip(node.results, self._results(given), strict=True):
                if value in self.group.outputs:
                    memory[value] = placed(made, allocate(value), name)

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


def placed(made: Operand[object], place: Operand[object], name: str) -> Operand[object]:
    """Return an array as one of the library and on the device of `place`, in C order: itself where it is one."""
    same = library_of(made.value) == library_of(place.value) and made.on_device == place.on_device
    if same and made.contiguous:
        return made
    if isinstance(place.value, DeviceArray):
        place.value.set(np.ascontiguousarray(made.view))
    elif place.on_device:
        as_cupy(place.value, name)[...] = as_cupy(made.value, name)
    else:
        np.copyto(place.view, made.view)
    return place
