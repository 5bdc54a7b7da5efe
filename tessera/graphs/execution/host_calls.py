"""Call a prepared graph on arrays of one kind on the host, with launches on the CPU that were bound before.

The first call of a kind looks at its arrays in full and leaves what later ones compare with: each array's class, dtype,
shape and order.  A call like it takes a frame, writes where inputs and outputs lie into the launches' arguments, and
runs them.  What is captured, watched, or on arrays of another kind goes the long way.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias, cast

import numpy as np

from tessera.core.graph.graph import Tensor, Value
from tessera.core.schedule.plan import Plan
from tessera.graphs.execution.device_calls import take_between
from tessera.graphs.execution.frames import Frame, Memory, Workspace
from tessera.graphs.execution.launch_sequences import with_roots
from tessera.graphs.execution.prepared import KernelStep, PreparedGraph, Step
from tessera.graphs.execution.supply import LibrarySupply
from tessera.runtime.arrays.interop import is_torch
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import TorchTensor
from tessera.runtime.launch.cpu import BoundLaunch, CpuLauncher
from tessera.runtime.launch.phases import HostPhases, PhasedLaunch
from tessera.runtime.memory.device_arrays import is_on_device
from tessera.runtime.memory.operands import Operand, new_array, operand
from tessera.runtime.streams.graph_capture import CaptureSession

Reader: TypeAlias = Callable[[object], int]
"""Returns the address of an array like the one it was results for; -1 for any other."""
_OTHER: Final = -1
_NOWHERE: Final = -1
"""Of an array whose address is being written: an interrupt may come between two words."""


@dataclass(frozen=True, slots=True)
class _Patch:
    """A word of a launch's arguments: the address of an array that moves, and so many bytes."""

    word: ctypes.c_uint64
    displacement: int


class HostSequence:
    """A row of kernels on the CPU, bound to a frame.

    moving: the values that lie elsewhere in each call: given, returned, or made by a step between two rows
    """

    def __init__(self, steps: Sequence[KernelStep], plan: Plan, frame: Frame) -> None:
        touched = [value for step in steps for value in (*step.group.inputs, *step.group.outputs)]
        roots = dict.fromkeys(plan.root(value) for value in touched)
        self.moving = tuple(value for value in roots if value not in frame.views and value.type.bytes)
        # Arrays of the same size stand in for those that move: the address of an argument tells which it is part of.
        stand_ins: Memory = {
            value: operand(np.empty(value.type.shape, value.type.dtype.numpy), value.name) for value in self.moving
        }
        self._written = [address(stand_ins[value].view) for value in self.moving]
        ends = [start + value.type.bytes for start, value in zip(self._written, self.moving, strict=True)]
        self._patches: list[list[_Patch]] = [[] for _ in self.moving]
        self.launches: list[BoundLaunch | PhasedLaunch] = []
        space = Workspace(frame, stand_ins, repeated=True)
        memory: Memory = {**stand_ins, **{value: space(value) for value in frame.views}}
        for step in steps:
            with_roots(step.group, plan, memory, space)
            arguments = step.arguments(memory, space)
            launch = cast("CpuLauncher | HostPhases", step.launcher).prepare(arguments)
            if launch is None:
                continue
            self.launches.append(launch)
            for number, argument in enumerate(arguments):
                pointer = address(cast("np.ndarray", argument))
                for which, (start, end) in enumerate(zip(self._written, ends, strict=True)):
                    if start <= pointer < end:
                        self._patches[which] += [_Patch(word, pointer - start) for word in launch.words(number)]
        self._kept = stand_ins

    def run(self, addresses: dict[Value, int]) -> None:
        """Run the launches, with the values that move at these addresses."""
        written = self._written
        for number, value in enumerate(self.moving):
            start = addresses[value]
            if start != written[number]:
                written[number] = _NOWHERE
                for patch in self._patches[number]:
                    patch.word.value = start + patch.displacement
                written[number] = start
        for launch in self.launches:
            launch.run()


class BoundHostGraph:
    """The steps of a graph on a frame.

    parts: rows of launches, and steps between them
    """

    def __init__(self, callee: PreparedGraph, frame: Frame) -> None:
        self._plan, self._frame = callee.plan, frame
        self.parts: list[HostSequence | Step] = []
        for bound, row in groupby(callee.steps, key=is_bound):
            steps = list(row)
            if bound:
                self.parts.append(HostSequence(cast("list[KernelStep]", steps), callee.plan, frame))
            else:
                self.parts += steps

    def run(self, addresses: dict[Value, int], memory: Memory) -> None:
        """Run all steps; see `BoundOnHost`."""
        for part in self.parts:
            if isinstance(part, HostSequence):
                part.run(addresses)
            else:
                take_between(part, self._plan, self._frame, addresses, memory)


def is_bound(step: Step) -> bool:
    """Return whether a step launches compiled code on the CPU."""
    return isinstance(step, KernelStep) and isinstance(step.launcher, CpuLauncher | HostPhases)


class HostCalls:
    """Calls of one prepared graph on arrays of one kind on the host; from any thread."""

    def __init__(self, callee: PreparedGraph, like: Operand[object], readers: Sequence[Reader]) -> None:
        self._callee, self._readers = callee, tuple(readers)
        self._supply = LibrarySupply.of(like)
        self._inputs = callee.graph.inputs
        plan, graph = callee.plan, callee.graph
        between = {value for step in callee.steps if not is_bound(step) for value in step.group.outputs}
        self._between = not all(map(is_bound, callee.steps))
        self._outputs = tuple((value, plan.root(value)) for value in graph.outputs)
        outside = {*graph.inputs, *between}
        self._makers = tuple(
            (root, value, _maker(self._supply.like.value, value.type)) for value, root in self._outputs
            if root not in outside
        )  # fmt: skip

    @staticmethod
    def of(callee: PreparedGraph, arrays: Sequence[object]) -> "HostCalls | None":
        """Return the calls on arrays like these; None for libraries that have no quick way, and for no launches."""
        if not arrays or not any(map(is_bound, callee.steps)):
            return None
        readers = [_reader(array) for array in arrays]
        quick = [reader for reader in readers if reader is not None]
        return None if len(quick) < len(readers) else HostCalls(callee, operand(arrays[0], "an input"), quick)

    def __call__(self, arrays: Sequence[object]) -> tuple[object, ...] | None:
        """Run on arrays; None, having done nothing, where these or the situation are of another kind."""
        if len(arrays) != len(self._readers) or CaptureSession.count:
            return None
        addresses: dict[Value, int] = {}
        for value, read, array in zip(self._inputs, self._readers, arrays, strict=True):
            start = read(array)
            if start == _OTHER:
                return None
            addresses[value] = start
        results: dict[Value, object] = {}
        for root, value, make in self._makers:
            array = results[value] = make()
            addresses[root] = _address_of(array)
        memory: Memory = self._memory(arrays, results) if self._between else {}
        with self._callee.frames.lent(self._supply) as frame:
            bound = frame.bound_on_host
            if bound is None:
                bound = frame.bound_on_host = BoundHostGraph(self._callee, frame)
            bound.run(addresses, memory)
        if len(self._makers) == len(self._outputs):
            return tuple(results.values())
        arrays_of = {**memory, **{value: operand(a, value.name) for value, a in zip(self._inputs, arrays, strict=True)}}
        return tuple(
            results[value] if value in results else arrays_of[root].reshaped(value.type.shape)
            for value, root in self._outputs
        )

    def _memory(self, arrays: Sequence[object], results: dict[Value, object]) -> Memory:
        """Return what the steps between two rows are given."""
        memory = {value: operand(array, value.name) for value, array in zip(self._inputs, arrays, strict=True)}
        for root, value, _ in self._makers:
            memory[root] = operand(operand(results[value], value.name).reshaped(root.type.shape), value.name)
        return memory


def _reader(like: object) -> Reader | None:
    """Return what reads the address of arrays like this one; None for libraries that have no quick way."""
    if type(like) is np.ndarray:
        return _numpy_reader(like)
    if is_torch(like) and not is_on_device(like):
        return _torch_reader(like)
    return None


def _numpy_reader(like: "np.ndarray") -> Reader:
    shape, dtype = like.shape, like.dtype

    def read(value: object) -> int:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype is not dtype:
            return _OTHER
        flags = value.flags
        return address(value) if flags.c_contiguous and flags.aligned else _OTHER

    return read


def _torch_reader(like: TorchTensor) -> Reader:
    library, shape, dtype, layout = type(like), like.shape, like.dtype, like.layout

    def read(value: object) -> int:
        if type(value) is not library:
            return _OTHER
        tensor = value
        if (
            tensor.shape != shape or tensor.dtype is not dtype or tensor.layout is not layout
            or tensor.get_device() != _OTHER or not tensor.is_contiguous() or tensor.is_neg()
        ):  # fmt: skip
            return _OTHER
        return tensor.data_ptr()

    return read


def _maker(like: object, kind: Tensor) -> Callable[[], object]:
    """Return what makes an array of a type, of the library of `like`."""
    if type(like) is np.ndarray:
        return partial(np.empty, kind.shape, kind.dtype.numpy)
    return partial(new_array, like, kind.shape, kind.dtype, on_device=False)


def _address_of(array: object) -> int:
    return address(array) if type(array) is np.ndarray else cast("TorchTensor", array).data_ptr()
