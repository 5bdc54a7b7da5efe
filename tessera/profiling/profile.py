"""`tessera.profile(k)(args)`: run a kernel once, and say where the time of its tiles went.

The kernel is compiled a second time so that each group writes a record (`core/profile.py`); that one and the ordinary
one are launched in turns on copies of the arguments, which gives the overhead.  Where it is more than 5 %, groups are
too short for a record each, and only one of several gets one.  The call itself, on the user's own arrays, comes last,
and is an ordinary one.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tessera.core.errors.catalog import BadKernelOption, NotAvailableYet
from tessera.core.events import TileRan, publish, wanted
from tessera.core.profile import RECORD_BYTES, WORDS, with_profile
from tessera.core.program.arguments import ArrayArgument
from tessera.core.progress import working
from tessera.core.targets import TARGETS, TargetKind
from tessera.core.work import Numbers, Work
from tessera.graphs.function import GraphFunction
from tessera.kernels.kernel import Kernel
from tessera.kernels.signature import Described, plain
from tessera.performance.device_model import Machine, measured_again, raised, this_machine
from tessera.performance.launch_shape import bound_extents, launch_shape
from tessera.performance.work_count import count_work
from tessera.profiling.argument_clones import ClonedArguments, CloneRing
from tessera.profiling.expected import wrong_outputs
from tessera.profiling.mesh_profile import MeshProfiler
from tessera.profiling.origin import ArgumentReferences, Origin
from tessera.profiling.records import read_records
from tessera.profiling.results import Profile
from tessera.profiling.timing import Timer, timer_for
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.binding.current_stream import forbid_in_capture
from tessera.runtime.binding.grid import Grid, read_grid
from tessera.runtime.driver import driver as door
from tessera.runtime.launch.launchers import Loadable, RecordingLauncher, runtime_of
from tessera.runtime.launch.phases import Workspaces
from tessera.runtime.memory.device_arrays import standing_for
from tessera.runtime.streams.graph_capture import forbid
from tessera.session.compiled import Compiled
from tessera.session.session import session

_ROUNDS: Final = 11
_PATIENCE: Final = 2.0
"""Seconds after which no further round of launches is begun, once there were three."""
_FEWEST: Final = 3
_MEASURED_AGAIN: Final = 3
_LIMIT: Final = 0.05
"""The overhead above which not every group writes a record."""
_AIM: Final = 0.02
_FEWEST_RECORDS: Final = 16
_LARGEST_CLUSTER: Final = 16  # blocks, CUDA C++ Programming Guide


@dataclass(frozen=True, slots=True)
class Profiler:
    """A kernel that is profiled when it is called.

    expect: what its results are compared with, see `profiling.expected`; None: nothing
    """

    kernel: Kernel
    grid: Grid | None = None
    expect: object = None

    def __call__(self, *arguments: object, **keywords: object) -> Profile:
        """Call the kernel and return the profile of the launch.

        Raises NotAvailableYet for targets whose kernels write no records (interpret, cuda_tile), BadCapture while a
        graph is captured, and what a call does.
        """
        forbid("profiling a kernel")
        kernel = self.kernel
        values = self._ordered(arguments, keywords)
        forbid_in_capture(values, "profiling a kernel")
        kernel.require_together(values)
        kind = kernel.target_for(values).kind
        if not kind.profiled:
            hint = f"choose a target of {', '.join(name for name, other in TARGETS.items() if other.profiled)}"
            raise NotAvailableYet(f"a kernel for the target {kind.name} has no profile", hint=hint)
        timer = timer_for(kind, values)
        try:
            with timer.inside():
                found = _measure(kernel, values, self.grid, kind, timer)
        finally:
            timer.close()
        if self.expect is not None:
            found = dataclasses.replace(found, wrong=wrong_outputs(kernel, values, self.expect, self.grid))
        kernel.launch(arguments, keywords, self.grid)
        _tell_tiles(found)
        return found

    def __getitem__(self, key: object) -> "Profiler":
        """Return the profiler for `profile(k)[grid, block](...)`: with an explicit launch grid."""
        given = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        return Profiler(self.kernel, read_grid(*given), self.expect)

    def _ordered(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> tuple[object, ...]:
        """Return every parameter's argument, in order, defaults filled in."""
        try:
            bound = inspect.signature(self.kernel.function).bind(*arguments, **keywords)
        except TypeError:
            self.kernel.launch(arguments, keywords, self.grid)  # names the mistake
            raise
        bound.apply_defaults()
        return tuple(plain(value) for value in bound.arguments.values())


def profile(kernel: Kernel, grid: object = None, *, expect: object = None) -> Profiler:
    """Return `kernel`, to be profiled when it is called: `profile(saxpy)(x, y, 2.0)` gives a `Profile`.

    A function of operators is profiled on a mesh: `MeshProfiler(f)`, which gives a `MeshProfile`.
    grid: groups of the launch, or (groups, lanes of a group), as in `kernel[grid, block]`; None: from the arguments
    expect: what the results should be, which the profile then says first: arrays, a function of the arguments, or NumPy
        code such as `"y[:] = 2 * x"`; see `viz.diff`
    Raises BadKernelOption for what is no kernel.
    """
    given = cast("object", kernel)
    if isinstance(given, GraphFunction):
        # No overload: of a kernel whose type is not known, as of `compile_source`, the result would have none either.
        return cast("Profiler", MeshProfiler(cast("GraphFunction[..., object]", given)))
    if not isinstance(given, Kernel):
        name = getattr(kernel, "__name__", repr(kernel))
        raise BadKernelOption(f"{name} is no kernel, and so has no profile", hint="give what @kernel makes")
    if grid is None or isinstance(grid, Grid):
        return Profiler(kernel, grid, expect)
    parts = cast("tuple[object, ...]", grid) if isinstance(grid, tuple) else (grid,)
    nested = any(isinstance(part, tuple) for part in parts)
    return Profiler(kernel, read_grid(*parts) if nested else read_grid(parts), expect)


def _tell_tiles(found: Profile) -> None:
    """Publish the tiles of a profile, those of all its phases."""
    if wanted(TileRan):
        for one in (found, *found.next_phases):
            for tile in one.tiles:
                publish(TileRan(one.kernel, tile.index, tile.unit, tile.start, tile.end, tile.phases))


def _measure(kernel: Kernel, values: tuple[object, ...], grid: Grid | None, kind: TargetKind, timer: Timer) -> Profile:
    """Profile launches on copies of `values`: every group, or, where that takes too long, one of several."""
    kernel.described(values)  # what no kernel can take cannot be copied either
    trial = ClonedArguments(values, [False] * len(values), on_device=kind.on_gpu)
    try:
        kernel.launch(trial.values, None, grid)
        described = kernel.described(trial.values)
    finally:
        trial.close()
    compiled = kernel.last
    assert compiled is not None
    if not compiled.phases:
        return _measure_one(compiled, values, described, grid, timer, (kernel, values))
    layout = Workspaces(compiled.artifact, compiled.workspaces).layout(values)
    spaces = [np.zeros(shape, dtype) for shape, dtype in layout]
    types = (*described.types, *(np.ndarray for _ in spaces))
    kinds = [space.value.type.dtype for space in compiled.workspaces]
    more = (ArrayArgument(dtype, space.shape) for dtype, space in zip(kinds, spaces, strict=True))
    known = dataclasses.replace(described, arguments=(*described.arguments, *more), types=types)
    first, *others = (
        _measure_one(phase, (*values, *spaces), known, grid, timer, (kernel, values)) for phase in compiled.phases
    )
    return dataclasses.replace(first, next_phases=tuple(others))


def _measure_one(
    compiled: Compiled, values: tuple[object, ...], described: Described, grid: Grid | None, timer: Timer,
    call: tuple[Kernel, tuple[object, ...]],
) -> Profile:  # fmt: skip
    """Profile one launch; of a phase, on workspaces that hold zeros.  call: the kernel and the user's arguments."""
    kind = compiled.target.kind
    extents = bound_extents(compiled.program, described.arguments)
    shape = launch_shape(compiled.artifact, compiled.program, extents, grid)
    work, machine = count_work(compiled.program, shape), this_machine(kind, values)
    on_device = kind.on_gpu
    memory = DeviceRecords(shape.groups) if on_device else HostRecords(shape.groups)
    mutable = [binding.mutable for binding in compiled.bindings]
    try:
        ring = CloneRing(values, mutable, on_device=on_device, cache_bytes=machine.cache_bytes)
        try:
            runs = _Runs(compiled, described, grid, memory, ring, timer)
            found = runs.take(work, machine)
            every = sparser(found)
            best = with_possible_peaks(found if every == 1 else runs.take(work, machine, every))
            return dataclasses.replace(best, origin=Origin(compiled, shape, call[0], ArgumentReferences(call[1]), grid))
        finally:
            ring.close()
    finally:
        memory.close()


def with_possible_peaks(found: Profile) -> Profile:
    """Return the profile with peaks that are no lower than what the launch reached.

    A machine that was busy when they were measured, or slower for another reason, is measured again; where the launch
    is still faster than they allow, its own rate is the peak, and the profile says so.
    """
    for _ in range(_MEASURED_AGAIN):
        if found.attained <= 1.0:
            return found
        found = dataclasses.replace(found, machine=measured_again(found.machine))
    reached = (found.roofline.memory / found.wall, found.roofline.compute / found.wall)
    machine = raised(found.machine, *reached)
    if machine is found.machine:
        return found
    source = f"{machine.source}; raised to what this launch reached, as it was faster"
    return dataclasses.replace(found, machine=dataclasses.replace(machine, source=source))


def sparser(found: Profile) -> int:
    """Return how many groups there should be to a record, so that writing them does not count: a power of two."""
    if found.overhead <= max(_LIMIT, found.noise) or found.work.groups < _FEWEST_RECORDS:
        return 1
    wanted = 1 << math.ceil(math.log2(found.overhead / _AIM))
    most = 1 << int(math.log2(found.work.groups / _FEWEST_RECORDS))
    return min(wanted, most)


class _Runs:
    """Launches of the ordinary and of a recording kernel, in turns."""

    def __init__(
        self, compiled: Compiled, described: Described, grid: Grid | None, memory: "DeviceRecords | HostRecords",
        ring: CloneRing, timer: Timer,
    ) -> None:  # fmt: skip
        self._compiled, self._types, self._grid = compiled, described.types, grid
        self._memory, self._ring, self._timer = memory, ring, timer

    def take(self, work: Work, machine: Machine, every: int = 1) -> Profile:
        """Profile with a record of every `every`-th group; the first launch of each kernel is not counted."""
        ordinary, recording = self._launches(every)
        plain_seconds: list[float] = []
        recorded: list[tuple[float, Numbers]] = []
        with working(f"profiling {self._compiled.name}", _ROUNDS + 1) as task:
            for turn in range(-1, _ROUNDS):
                task.step(turn + 1)
                seconds = self._once(ordinary)
                self._memory.clear()
                writing = self._once(recording)
                if turn >= 0:
                    plain_seconds.append(seconds)
                    recorded.append((writing, self._memory.read()))
                if turn + 1 >= _FEWEST and sum(plain_seconds) > _PATIENCE:
                    break
        compiled, resources = self._compiled, self._compiled.artifact.resources
        records = sorted(recorded, key=lambda run: run[0])[len(recorded) // 2][1]
        return Profile(
            compiled.name, str(compiled.target), machine, read_records(records, work, on_gpu=machine.on_gpu), work,
            tuple(plain_seconds), tuple(seconds for seconds, _ in recorded),
            resources.registers, resources.shared_bytes, resources.spill_bytes, every,
        )  # fmt: skip

    def _launches(self, every: int) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return what launches the ordinary kernel, and what launches the one that writes records."""
        compiled, memory, grid, types = self._compiled, self._memory, self._grid, self._types
        recording = session().compile(with_profile(compiled.program, every), compiled.target, exact=True)
        runtime = runtime_of(compiled.target.kind)
        ordinary, writing = (
            runtime.load(Loadable(made.program, made.artifacts, (), types)) for made in (compiled, recording)
        )
        into = memory.place
        return (
            lambda *values: ordinary(*values, grid=grid),
            lambda *values: cast("RecordingLauncher", writing)(*values, grid=grid, profile=into),
        )

    def _once(self, launch: Callable[..., None]) -> float:
        arguments = self._ring.take()
        seconds = self._timer.time(lambda: launch(*arguments.values))
        arguments.restore()
        return seconds


class HostRecords:
    """Zeroed memory for the records of a launch on the CPU."""

    def __init__(self, groups: int) -> None:
        self.place: AnyArray = np.zeros((groups, WORDS), np.uint64)

    def clear(self) -> None:
        """Forget the records."""
        self.place[:] = 0

    def read(self) -> Numbers:
        """Return the records, one row a group."""
        return self.place.copy()

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class DeviceRecords:
    """Zeroed memory for the records on the current GPU; with room for the blocks that fill up the last cluster."""

    def __init__(self, groups: int) -> None:
        self._api = door.driver()
        self._groups = groups
        self._size = (groups + _LARGEST_CLUSTER) * RECORD_BYTES
        self._address = self._api.allocate(self._size, 0)
        self.place: AnyArray = standing_for(self._address, (self._size,), np.dtype(np.uint8), None)

    def clear(self) -> None:
        """Forget the records."""
        self._api.clear(self._address, self._size, 0)

    def read(self) -> Numbers:
        """Return the records, one row a group, once the default stream is done."""
        words = np.zeros((self._groups, WORDS), np.uint64)
        if self._groups:
            self._api.download(words, self._address, 0)
            self._api.wait(0)
        return words

    def close(self) -> None:
        """Give the memory back."""
        if not self._api.gone:
            self._api.free(self._address, 0)
