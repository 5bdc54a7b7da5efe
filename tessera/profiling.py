"""`tessera.profile(k)(args)`: run a kernel once, and say where the time of its tiles went.

The kernel is compiled a second time so that each group writes a record (`core/profile.py`); that one and the ordinary
one are launched in turns on copies of the arguments, which gives the overhead.  The call itself, on the user's own
arrays, comes last and is an ordinary one.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from tessera.arguments import Described, plain
from tessera.compiled import Compiled
from tessera.copies import Arguments, Ring
from tessera.core import dtypes
from tessera.core.artifact import Artifact, Binding, Slot
from tessera.core.mistakes import NotAvailableYet
from tessera.core.profile import RECORD_BYTES, WORDS, with_profile
from tessera.core.program.types import Scalar
from tessera.core.source import NOWHERE
from tessera.core.work import Numbers
from tessera.kernel_class import Kernel
from tessera.launch_shape import bound_extents, launch_shape
from tessera.machine import this_machine
from tessera.profile_result import Profile, read_records
from tessera.runtime import driver as door
from tessera.runtime.grid import Grid, read_grid
from tessera.runtime.launch import Launcher
from tessera.session import session
from tessera.timing import Timer, timer_for
from tessera.work import count_work

_TARGETS: Final = ("cpu", "cuda")
_ROUNDS: Final = 11
_PATIENCE: Final = 2.0
"""Seconds after which no further round of launches is begun, once there were three."""
_FEWEST: Final = 3
_LARGEST_CLUSTER: Final = 16  # blocks, CUDA C++ Programming Guide


@dataclass(frozen=True, slots=True)
class Profiler:
    """A kernel that is profiled when it is called."""

    kernel: Kernel
    grid: Grid | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Profile:
        """Call the kernel and return where its time went.

        Raises NotAvailableYet for targets whose kernels write no records (interpret, cuda_tile), and what a call does.
        """
        kernel, kind = self.kernel, self.kernel.target_name
        if kind not in _TARGETS:
            hint = f"choose a target of {', '.join(_TARGETS)}"
            raise NotAvailableYet(f"a kernel for the target {kind} has no profile", hint=hint)
        values = self._ordered(arguments, keywords)
        timer = timer_for(kind, values)
        try:
            with timer.inside():
                found = _measure(kernel, values, self.grid, kind, timer)
        finally:
            timer.close()
        kernel.launch(arguments, keywords, self.grid)
        return found

    def __getitem__(self, key: Any) -> "Profiler":
        """`profile(k)[grid, block](...)`: with an explicit launch grid."""
        given = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        return Profiler(self.kernel, read_grid(*given))

    def _ordered(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[object, ...]:
        """Every parameter's argument, in order, defaults filled in."""
        try:
            bound = inspect.signature(self.kernel.function).bind(*arguments, **keywords)
        except TypeError:
            self.kernel.launch(arguments, keywords, self.grid)  # names the mistake
            raise
        bound.apply_defaults()
        return tuple(plain(value) for value in bound.arguments.values())


def profile(kernel: Kernel, grid: object = None) -> Profiler:
    """Return `kernel`, to be profiled when it is called: `profile(saxpy)(x, y, 2.0)` gives a `Profile`.

    grid: groups of the launch, or (groups, lanes of a group), as in `kernel[grid, block]`; None: from the arguments
    """
    if grid is None or isinstance(grid, Grid):
        return Profiler(kernel, grid)
    parts = cast("tuple[object, ...]", grid) if isinstance(grid, tuple) else (grid,)
    nested = any(isinstance(part, tuple) for part in parts)
    return Profiler(kernel, read_grid(*parts) if nested else read_grid(parts))


def _measure(kernel: Kernel, values: tuple[object, ...], grid: Grid | None, kind: str, timer: Timer) -> Profile:
    """Profile launches on copies of `values`."""
    on_device = kind == "cuda"
    trial = Arguments(values, [False] * len(values), on_device=on_device)
    try:
        kernel.launch(trial.values, None, grid)
        described = kernel.described(trial.values)
    finally:
        trial.close()
    compiled = kernel.last
    assert compiled is not None
    shape = launch_shape(
        compiled.artifact, compiled.program, bound_extents(compiled.program, described.arguments), grid
    )
    work, machine = count_work(compiled.program, shape), this_machine(kind)
    recording = session().compile(with_profile(compiled.program), compiled.target)
    memory: DeviceRecords | HostRecords = (DeviceRecords if on_device else HostRecords)(shape.groups)
    ring = Ring(
        values, [binding.mutable for binding in compiled.artifact.bindings],
        on_device=on_device, cache_bytes=machine.cache_bytes,
    )  # fmt: skip
    try:
        runs = _Runs(compiled, recording, described, grid, memory, ring, timer)
        plain_seconds, recorded = runs.take()
    finally:
        ring.close()
        memory.close()
    middle = sorted(recorded, key=lambda run: run[0])[len(recorded) // 2]
    resources = compiled.artifact.resources
    return Profile(
        compiled.name, str(compiled.target), machine, read_records(middle[1], work, kind), work,
        tuple(plain_seconds), tuple(seconds for seconds, _ in recorded),
        resources.registers, resources.shared_bytes, resources.spill_bytes,
    )  # fmt: skip


class _Runs:
    """Launches of the ordinary and of the recording kernel, in turns."""

    def __init__(
        self, compiled: Compiled, recording: Compiled, described: Described, grid: Grid | None,
        memory: "DeviceRecords | HostRecords", ring: Ring, timer: Timer,
    ) -> None:  # fmt: skip
        self._grid, self._memory, self._ring, self._timer = grid, memory, ring, timer
        if compiled.target.name == "cuda":
            from tessera.runtime.cuda import CudaLauncher  # noqa: PLC0415 - only with a GPU

            ordinary = CudaLauncher(compiled.artifact, described.types)
            writing = CudaLauncher(recording.artifact, described.types)
            self._plain: Callable[..., None] = lambda *values: ordinary(*values, grid=grid)
            self._write: Callable[..., None] = lambda *values: writing(*values, grid=grid, profile=memory.address)
        else:
            host = Launcher(compiled.artifact, described.types)
            recorder = Launcher(_with_address(recording.artifact), (*described.types, int))
            self._plain = lambda *values: host(*values, grid=grid)
            self._write = lambda *values: recorder(*values, memory.address, grid=grid)

    def take(self) -> tuple[list[float], list[tuple[float, Numbers]]]:
        """Seconds of the ordinary kernel, and seconds and records of the other; the first of each is not counted."""
        plain_seconds: list[float] = []
        recorded: list[tuple[float, Numbers]] = []
        for turn in range(-1, _ROUNDS):
            seconds = self._once(self._plain)
            self._memory.clear()
            writing = self._once(self._write)
            if turn >= 0:
                plain_seconds.append(seconds)
                recorded.append((writing, self._memory.read()))
            if turn + 1 >= _FEWEST and sum(plain_seconds) > _PATIENCE:
                break
        return plain_seconds, recorded

    def _once(self, launch: Callable[..., None]) -> float:
        arguments = self._ring.take()
        seconds = self._timer.time(lambda: launch(*arguments.values))
        arguments.restore()
        return seconds


class HostRecords:
    """Zeroed memory for the records of a launch on the CPU."""

    def __init__(self, groups: int) -> None:
        self._words = np.zeros((groups, WORDS), np.uint64)
        self.address = self._words.ctypes.data

    def clear(self) -> None:
        """Forget the records."""
        self._words[:] = 0

    def read(self) -> Numbers:
        """The records, one row a group."""
        return self._words.copy()

    def close(self) -> None:
        """Nothing to give back."""


class DeviceRecords:
    """The same in the current GPU's memory; with room for the blocks that fill up the last cluster."""

    def __init__(self, groups: int) -> None:
        self._api = door.driver()
        self._groups = groups
        self._size = (groups + _LARGEST_CLUSTER) * RECORD_BYTES
        self.address = self._api.allocate(self._size, 0)

    def clear(self) -> None:
        """Forget the records."""
        self._api.clear(self.address, self._size, 0)

    def read(self) -> Numbers:
        """The records, one row a group, once the default stream is done."""
        words = np.zeros((self._groups, WORDS), np.uint64)
        if self._groups:
            self._api.download(words, self.address, 0)
            self._api.wait(0)
        return words

    def close(self) -> None:
        """Give the memory back."""
        if self._api.lost is None:
            self._api.free(self.address, 0)


def _with_address(artifact: Artifact) -> Artifact:
    """The same code, with the address of the records as one more argument."""
    number = len(artifact.bindings)
    binding = Binding("records", Scalar(dtypes.u64), mutable=False, span=NOWHERE)
    slots: Sequence[Slot] = [Slot("scalar", number) if slot.kind == "profile" else slot for slot in artifact.slots]
    return dataclasses.replace(artifact, bindings=(*artifact.bindings, binding), slots=tuple(slots))
