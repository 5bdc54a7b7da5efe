"""Call a prepared graph on arrays of one kind on a GPU, with launches that were bound before.

The first call of a kind looks at its arrays in full and leaves what later ones compare with: each array's class, dtype,
shape and device.  A call like it takes a frame, moves what is given and returned, and begins: see `launch_sequences`.
What is captured, watched, or on arrays of another kind goes the long way.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Final, Protocol, cast

import numpy as np

from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.schedule.plan import Group, Plan
from tessera.graphs.execution.frames import Frame, FramePool, Memory, Workspace
from tessera.graphs.execution.launch_sequences import LaunchSequence, with_roots
from tessera.graphs.execution.supply import Supply, supply_of
from tessera.runtime.arrays.interop import is_cupy, is_torch
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import CupyArray, TorchTensor
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.operands import Operand, new_array, operand
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.fair_scheduler import Shared, drain
from tessera.runtime.streams.graph_capture import CaptureSession

Reader = Callable[[object], int]
"""Returns the address of an array like the one it was made for; -1 for any other."""
_OTHER: Final = -1
_STREAMS: Final = 64
"""Streams that calls keep ready."""
_ROW: Final = 15  # an address with these bits is no place for rows that are aligned
_STAGED_BYTES: Final = 1 << 16
"""Of an array of NumPy beside arrays on a GPU: the driver copies it at once, without waiting."""


class HostOrLaunchingStep(Protocol):
    """A step of a graph.  launches_only: it does nothing but launch kernels on a GPU."""

    @property
    def group(self) -> Group:
        """Return the group that it computes."""
        ...

    @property
    def launches_only(self) -> bool:
        """Return whether it does nothing but launch kernels on a GPU."""
        ...

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Read operands from `memory`, and put results there."""
        ...


class Callee(Protocol):
    """A prepared graph, as far as calls see it."""

    @property
    def graph(self) -> Graph:
        """Return the group that it computes."""
        ...

    @property
    def plan(self) -> Plan:
        """Its groups and buffers."""
        ...

    @property
    def steps(self) -> Sequence[HostOrLaunchingStep]:
        """A step for each group."""
        ...

    @property
    def frames(self) -> FramePool:
        """Its arenas."""
        ...


class BoundGraph:
    """The steps of a graph on a frame: sequences of launches, and steps of the host between them."""

    def __init__(self, callee: Callee, frame: Frame, device: int) -> None:
        self._plan, self._frame = callee.plan, frame
        self._parts: list[LaunchSequence | HostOrLaunchingStep] = []
        for launches, row in groupby(callee.steps, key=lambda step: step.launches_only):
            steps = list(row)
            self._parts += [LaunchSequence(steps, callee.plan, frame, device)] if launches else steps

    def run(self, places: dict[Value, int], driver: Driver, stream: int, memory: Memory) -> None:
        """Begin all launches on a stream; see `Bound`."""
        for part in self._parts:
            if isinstance(part, LaunchSequence):
                part.begin(places, driver, stream)
            else:
                take_between(part, self._plan, self._frame, places, memory)


def take_between(
    step: HostOrLaunchingStep, plan: Plan, frame: Frame, places: dict[Value, int], memory: Memory
) -> None:  # fmt: skip
    """Take a step between two sequences, on arrays of the caller's library, and say where its results lie."""
    space = Workspace(frame, memory)
    with_roots(step.group, plan, memory, space)
    step.run(memory, space)
    places.update((value, address(memory[value].view)) for value in step.group.outputs)


class DeviceCalls:
    """Calls of one prepared graph on arrays of one kind on one GPU; from any thread."""

    def __init__(
        self, callee: Callee, driver: Driver, device: int, like: Operand[object], company: ArgumentStreams,
        readers: Sequence[Reader],
    ) -> None:  # fmt: skip
        self._callee, self._driver, self._device, self._company = callee, driver, device, company
        self._readers = tuple(readers)
        self._like = supply_of(like).like
        self._supplies: dict[int, Supply] = {}
        self._inputs = callee.graph.inputs
        plan, graph = callee.plan, callee.graph
        hosted = {value for step in callee.steps if not step.launches_only for value in step.group.outputs}
        self._hosted = bool(hosted) or not all(step.launches_only for step in callee.steps)
        self._outputs = tuple((value, plan.root(value)) for value in graph.outputs)
        given = {*graph.inputs, *hosted}
        self._makers = tuple(
            (root, value, _maker(self._like, value.type, driver)) for value, root in self._outputs if root not in given
        )
        self._making = driver.relaxed if isinstance(self._like.value, DeviceArray) else nullcontext[None]
        self._pointer = _pointer_of(self._like.value)

    @staticmethod
    def of(callee: Callee, driver: Driver, device: int, arrays: Sequence[object]) -> "DeviceCalls | None":
        """Return the calls on arrays like these; None for libraries that have no quick way."""
        known = [array for array in arrays if _pointer_of(array) is not _nowhere]
        if not known:
            return None
        readers = [_reader(array, value.type, device) for array, value in zip(arrays, callee.graph.inputs, strict=True)]
        found = [reader for reader in readers if reader is not None]
        if len(found) < len(readers):
            return None
        company = ArgumentStreams.of(arrays, device)
        return DeviceCalls(callee, driver, device, operand(known[0], "an input"), company, found)

    def __call__(self, arrays: Sequence[object]) -> tuple[object, ...] | None:
        """Run on arrays; None, having done nothing, where these or the situation are of another kind."""
        if len(arrays) != len(self._readers) or CaptureSession.count:
            return None
        places: dict[Value, int] = {}
        for value, read, array in zip(self._inputs, self._readers, arrays, strict=True):
            place = read(array)
            if place == _OTHER:
                return None
            places[value] = place
        driver = self._driver
        with driver.inside(self._device):
            stream = self._company.current()
            if stream and driver.capturing(stream):
                return None
            if Shared.dispatcher.busy:
                drain()
            if self._company.agrees(stream):
                return self._run(arrays, places, stream)
            with self._company.around(driver, stream):
                return self._run(arrays, places, stream)

    def _run(self, arrays: Sequence[object], places: dict[Value, int], stream: int) -> tuple[object, ...]:
        made: dict[Value, object] = {}
        pointer = self._pointer
        with self._making():  # memory is no part of what is captured meanwhile
            for root, value, make in self._makers:
                array = made[value] = make()
                places[root] = pointer(array)
        memory: Memory = {}
        if self._hosted:
            memory.update(
                (value, operand(array, value.name)) for value, array in zip(self._inputs, arrays, strict=True)
            )
            for root, value, _ in self._makers:
                memory[root] = operand(operand(made[value], value.name).reshaped(root.type.shape), value.name)
        supply = self._supplies.get(stream) or self._supply(stream)
        with self._callee.frames.lent(supply) as frame:
            for number, value in enumerate(self._inputs):
                if not places[value] and value.type.bytes:
                    places[value] = self._staged(frame, value, cast("np.ndarray", arrays[number]), stream)
                    if self._hosted:
                        memory[value] = frame.kept[value]
            bound = frame.bound
            if bound is None:
                bound = frame.bound = BoundGraph(self._callee, frame, self._device)
            bound.run(places, self._driver, stream, memory)
        if len(self._makers) == len(self._outputs):
            return tuple(made.values())
        known = {**memory, **{value: operand(a, value.name) for value, a in zip(self._inputs, arrays, strict=True)}}
        return tuple(
            made[value] if value in made else known[root].reshaped(value.type.shape) for value, root in self._outputs
        )

    def _supply(self, stream: int) -> Supply:
        if len(self._supplies) > _STREAMS:
            self._supplies.clear()
        found = self._supplies[stream] = supply_of(self._like, stream)
        return found

    def _staged(self, frame: Frame, value: Value, array: np.ndarray, stream: int) -> int:
        """Copy an array of NumPy to the GPU, where the frame keeps a place for it."""
        found = frame.kept.get(value)
        if found is None:
            found = frame.kept[value] = frame.supply.array(value.type, value.name)
        place = address(found.view)
        self._driver.send(place, array, stream)
        return place


def _reader(array: object, kind: Tensor, device: int) -> Reader | None:
    """Return what reads the address of arrays like this one; None for libraries that have no quick way."""
    if is_torch(array):
        return _torch_reader(array, kind, device)
    if is_cupy(array) and hasattr(array, "data"):
        return _cupy_reader(array, kind, device)
    if isinstance(array, DeviceArray):
        return _own_reader(array, device)
    if type(array) is np.ndarray and array.nbytes <= _STAGED_BYTES:
        return _host_reader(array)
    return None


def _torch_reader(like: TorchTensor, kind: Tensor, device: int) -> Reader:
    library, shape, dtype, layout = type(like), like.shape, like.dtype, like.layout
    bits, aligned = _rows(kind, like.data_ptr())

    def read(value: object) -> int:
        if type(value) is not library:
            return _OTHER
        tensor = value
        if (
            tensor.shape != shape or tensor.dtype is not dtype or tensor.layout is not layout
            or not tensor.is_contiguous()
            or tensor.get_device() != device or tensor.is_neg()
        ):  # fmt: skip
            return _OTHER
        place = tensor.data_ptr()
        return place if (not place & bits) is aligned else _OTHER

    return read


def _cupy_reader(like: CupyArray, kind: Tensor, device: int) -> Reader:
    library, shape, dtype = type(like), like.shape, like.dtype
    strides = like.strides
    bits, aligned = _rows(kind, like.data.ptr)

    def read(value: object) -> int:
        if type(value) is not library:
            return _OTHER
        array = value
        if array.shape != shape or array.dtype is not dtype or array.strides != strides:
            return _OTHER
        memory = array.data
        place = memory.ptr
        return place if memory.device_id == device and (not place & bits) is aligned else _OTHER

    return read


def _own_reader(like: DeviceArray, device: int) -> Reader:
    layout = like.layout
    aligned = not like.address & _ROW

    def read(value: object) -> int:
        if type(value) is not DeviceArray or value.layout is not layout or value.device != device:
            return _OTHER
        return value.address if (not value.address & _ROW) is aligned else _OTHER

    return read


def _host_reader(like: np.ndarray) -> Reader:
    """Return 0 for arrays of NumPy, whose place on the GPU each call chooses."""
    shape, dtype = like.shape, like.dtype

    def read(value: object) -> int:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype is not dtype:
            return _OTHER
        return 0 if value.flags.c_contiguous else _OTHER

    return read


def _rows(kind: Tensor, place: int) -> tuple[int, bool]:
    """Return the bits of an address that say whether rows are aligned, and whether those at `place` are."""
    fits = bool(kind.shape) and kind.shape[-1] * kind.dtype.numpy.itemsize % (_ROW + 1) == 0
    return (_ROW, not place & _ROW) if fits else (0, True)


def _maker(like: Operand[object], kind: Tensor, driver: Driver) -> Callable[[], object]:
    """Return what makes an array of a type."""
    value, shape, dtype = like.value, kind.shape, kind.dtype.numpy
    if isinstance(value, DeviceArray):
        return DeviceArray.maker(shape, dtype, value.device, driver)
    if is_torch(value):
        first = new_array(value, (0,), kind.dtype, on_device=True)
        return lambda: first.new_empty(shape)
    return lambda: new_array(value, shape, kind.dtype, on_device=True)


def _pointer_of(like: object) -> Callable[[object], int]:
    """Return what reads the address of arrays of a library on a GPU."""
    if isinstance(like, DeviceArray):
        return lambda value: cast("DeviceArray", value).address
    if is_torch(like) and like.is_cuda:
        return lambda value: cast("TorchTensor", value).data_ptr()
    if is_cupy(like) and hasattr(like, "data"):
        return lambda value: cast("CupyArray", value).data.ptr
    return _nowhere


def _nowhere(_: object) -> int:
    return _OTHER
