"""Launch a kernel in phases: its artifacts one after the other, with the workspaces that they share.

Both launchers have the interface of those for one artifact (`CpuLauncher`, `CudaLauncher`).
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from tessera.core.artifact import Artifact
from tessera.core.program.expressions import evaluate
from tessera.core.program.program import Workspace
from tessera.core.program.types import Array
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.cpu import BoundLaunch, CpuLauncher
from tessera.runtime.memory.alignment_copies import PaddedRows

if TYPE_CHECKING:
    from tessera.runtime.launch.cuda import CudaLauncher, StreamLike
    from tessera.runtime.launch.launch_plan import LaunchPlan
    from tessera.runtime.memory.owned import DeviceArray

_KEPT: Final = 64
"""Sets of workspaces on GPUs that a kernel keeps: one for each thread, stream and size."""
Layout = tuple[tuple[tuple[int, ...], np.dtype[np.generic]], ...]


class Workspaces:
    """The sizes of the workspaces of a launch, from its arguments."""

    def __init__(self, artifact: Artifact, workspaces: Sequence[Workspace]) -> None:
        own = {space.value.name for space in workspaces}
        count = sum(binding.name not in own for binding in artifact.bindings)
        self._symbols: dict[str, tuple[int, int, int]] = {}
        for name, *place in artifact.symbols:
            if place[0] < count:
                self._symbols.setdefault(name, (place[0], place[1], place[2]))
        self._spaces = [(space.extents, space.value.type.dtype.numpy) for space in workspaces]
        fixed = all(isinstance(extent, int) for extents, _ in self._spaces for extent in extents)
        self._fixed = self._layout(()) if fixed else None

    def layout(self, arguments: Sequence[object]) -> Layout:
        """Return the shape and dtype of each workspace; any for arguments that are no arrays, which are refused."""
        return self._fixed if self._fixed is not None else self._layout(arguments)

    def _layout(self, arguments: Sequence[object]) -> Layout:
        def extent(name: str) -> int:
            parameter, axis, scale = self._symbols[name]
            shape = getattr(arguments[parameter], "shape", ())
            return int(shape[axis]) * scale if axis < len(shape) else 1

        return tuple(
            (tuple(max(1, evaluate(length, extent)) for length in extents), dtype) for extents, dtype in self._spaces
        )


class _HasShape(Protocol):
    """An array as far as its extents go."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        ...


def launch_bytes(artifacts: Sequence[Artifact], workspaces: Sequence[Workspace], arrays: Sequence[_HasShape]) -> int:
    """Return the bytes that a launch allocates on a GPU, and gives back after it.

    Scratch memory of persistent kernels is not counted: its size is that of the blocks that a GPU runs at a time.

    artifacts: one a phase; workspaces: what the phases share; arrays: the arguments, scalars included
    """
    layout = Workspaces(artifacts[0], workspaces).layout(arrays) if workspaces else ()
    shared = sum(prod(shape) * dtype.itemsize for shape, dtype in layout)
    shapes = [*(getattr(array, "shape", ()) for array in arrays), *(shape for shape, _ in layout)]
    return shared + max((_phase_bytes(artifact, shapes) for artifact in artifacts), default=0)


def _phase_bytes(artifact: Artifact, shapes: Sequence[tuple[int, ...]]) -> int:
    padded = {slot.parameter for slot in artifact.slots if slot.tensor_map and slot.tensor_map.padded_rows}
    copies = 0
    for number in padded:
        array = artifact.bindings[number].type
        assert isinstance(array, Array)
        if 0 not in shapes[number]:
            copies += PaddedRows.of(shapes[number], array.dtype.numpy.itemsize).bytes
    return copies + sum(slot.bytes for slot in artifact.slots if slot.kind == "workspace")


@dataclass(slots=True, eq=False)
class PhasedLaunch:
    """The phases of one launch on the CPU with their arguments bound, which can be run again and again."""

    launches: Sequence[BoundLaunch]
    cancelled: bool = False

    def words(self, argument: int) -> "list[ctypes.c_uint64]":
        """Return the places that hold the address of an argument, in every phase; see `BoundLaunch.words`."""
        return [word for launch in self.launches for word in launch.words(argument)]

    def run(self) -> None:
        """Run them, to the end of the last one."""
        for launch in self.launches:
            if self.cancelled:
                return
            launch.run()

    def cancel(self) -> None:
        """Ask a run in another thread to end early; what it has written stays written."""
        self.cancelled = True
        for launch in self.launches:
            launch.cancel()


class HostPhases:
    """A kernel's phases on the CPU, loaded and ready.  May be used from several threads."""

    def __init__(self, artifacts: Sequence[Artifact], workspaces: Sequence[Workspace], types: Sequence[type]) -> None:
        self.artifact = artifacts[0]
        self._spaces = Workspaces(artifacts[0], workspaces)
        known = (*types, *(np.ndarray for _ in workspaces))
        self._launchers = [CpuLauncher(artifact, known) for artifact in artifacts]

    @property
    def quick(self) -> Callable[..., bool]:
        """The fast path: it launches when the arguments are exactly what the kernel takes."""
        return self.run

    @property
    def on_streams(self) -> None:
        """The host has no streams of its own: queues launch there."""
        return

    @property
    def last_groups(self) -> tuple[int | None, ...]:
        """How many groups each phase of the last call had."""
        return tuple(launcher.last_groups[0] for launcher in self._launchers)

    def __call__(self, *arguments: object, grid: Grid | None = None) -> None:
        """Run the kernel; see `CpuLauncher`."""
        values = self._with_workspaces(arguments)
        for launcher in self._launchers:
            launcher(*values, grid=grid)

    def run(self, arguments: Sequence[object], grid: Grid | None = None) -> bool:
        """Run the kernel when `arguments` are exactly what it takes; False, having done nothing, when they are not."""
        values = self._with_workspaces(arguments)
        first, *others = self._launchers
        return first.run(values, grid) and all(launcher.run(values, grid) for launcher in others)

    def prepare(self, arguments: Sequence[object], grid: Grid | None = None) -> PhasedLaunch | None:
        """Bind `arguments`, to run later; None for a launch without groups.  Raises the TesseraError they make."""
        values = self._with_workspaces(arguments)
        made = [launcher.prepare(values, grid) for launcher in self._launchers]
        found = [launch for launch in made if launch is not None]
        return PhasedLaunch(found) if found else None

    def _with_workspaces(self, arguments: Sequence[object]) -> tuple[object, ...]:
        return (*arguments, *(np.empty(shape, dtype) for shape, dtype in self._spaces.layout(arguments)))


@dataclass(frozen=True, slots=True, eq=False)
class PhasesPlan:
    """The phases of one launch on a GPU, to be begun later, in order; `keep` are their workspaces."""

    launches: "tuple[LaunchPlan, ...]"
    keep: tuple[object, ...] = field(repr=False)


class DevicePhases:
    """A kernel's phases on GPUs.  May be used from several threads.

    Workspaces are kept for the next launch of the same thread, stream and size: launches that share one are in order.
    """

    def __init__(self, artifacts: Sequence[Artifact], workspaces: Sequence[Workspace], types: Sequence[type]) -> None:
        from tessera.runtime.launch.cuda import CudaLauncher  # noqa: PLC0415 - needs a GPU

        self.artifact = artifacts[0]
        self._spaces = Workspaces(artifacts[0], workspaces)
        self._bindings = artifacts[0].bindings[: len(artifacts[0].bindings) - len(workspaces)]
        known = (*types, *(np.ndarray for _ in workspaces))
        self._launchers = [CudaLauncher(artifact, known) for artifact in artifacts]
        self._kept: dict[object, tuple[DeviceArray, ...]] = {}
        self._captured: list[tuple[DeviceArray, ...]] = []

    @property
    def quick(self) -> Callable[..., bool]:
        """The fast path: it launches on the default stream when the arguments are like those of an earlier call."""
        return self.run

    @property
    def on_streams(self) -> "DevicePhases":
        """The launcher itself."""
        return self

    @property
    def last_groups(self) -> tuple[int | None, ...]:
        """How many groups each phase of the last call had."""
        return tuple(launcher.last_groups[0] for launcher in self._launchers)

    def on_device(self, arguments: Sequence[object]) -> bool:
        """Return whether every array lies in the memory of a GPU."""
        return self._launchers[0].on_device(arguments[: len(self._bindings)])

    def device(self, arguments: Sequence[object]) -> int:
        """Return the GPU that a launch on `arguments` runs on.  Raises WrongDevice where they are on several."""
        return self._launchers[0].device(arguments)

    def run(self, arguments: Sequence[object], grid: Grid | None = None, stream: "StreamLike | None" = None) -> bool:
        """Launch when `arguments` are like those of an earlier call; False, having started nothing, otherwise."""
        if len(arguments) != len(self._bindings) or not self.on_device(arguments):
            return False
        first, *others = self._launchers
        values = self._with_workspaces(arguments, stream)
        if not first.run(values, grid, stream):
            return False
        for launcher in others:
            if not launcher.run(values, grid, stream):
                launcher(*values, grid=grid, stream=stream)
        return True

    def __call__(
        self, *arguments: object, grid: Grid | None = None, stream: "StreamLike | None" = None
    ) -> None:  # fmt: skip
        """Launch on a stream; see `CudaLauncher`.  NumPy arrays are copied once, before the first phase."""
        first, *others = self._launchers
        if self.on_device(arguments):
            values = self._with_workspaces(arguments, stream)
            for launcher in self._launchers:
                launcher(*values, grid=grid, stream=stream)
        else:
            first.launch_together(others, self._with_workspaces(arguments, stream), grid, stream)

    def prepare(self, arguments: Sequence[object], grid: Grid | None = None) -> PhasesPlan | None:
        """Bind launches that can be begun later, and again and again; None where there are no groups."""
        spaces = self._made(self._spaces.layout(arguments), self.device(arguments))
        made = [launcher.prepare((*arguments, *spaces), grid) for launcher in self._launchers]
        found = tuple(launch for launch in made if launch is not None)
        return PhasesPlan(found, spaces) if found else None

    def _with_workspaces(self, arguments: Sequence[object], stream: "StreamLike | None") -> tuple[object, ...]:
        layout = self._spaces.layout(arguments)
        if not layout:
            return tuple(arguments)
        launcher: CudaLauncher = self._launchers[0]
        device = launcher.device(arguments)
        handle = launcher.handle_of(arguments, device, stream)
        if launcher.captures(handle):  # the graph may run at any time, beside launches of ours
            spaces = self._made(layout, device)
            self._captured.append(spaces)
            return (*arguments, *spaces)
        key = (get_ident(), device, handle, layout)
        spaces = self._kept.get(key)
        if spaces is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            spaces = self._kept[key] = self._made(layout, device)
        return (*arguments, *spaces)

    def _made(self, layout: Layout, device: int) -> "tuple[DeviceArray, ...]":
        from tessera.runtime.memory.owned import DeviceArray  # noqa: PLC0415 - needs a GPU

        return tuple(DeviceArray(shape, dtype, device, settled=True) for shape, dtype in layout)
