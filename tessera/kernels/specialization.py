"""A kernel made ready for one kind of arguments, and the table of those that were."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.core.settings import Settings, current
from tessera.kernels.signature import Described, shape_class
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.launchers import Launcher, StreamLauncher
from tessera.runtime.streams.streams import Stream
from tessera.session.compiled import Compiled

Places: TypeAlias = tuple[tuple[int, int], ...]
Pairs: TypeAlias = tuple[tuple[tuple[int, int], tuple[int, int]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Specialization:
    """A kernel made ready for one kind of arguments.

    arguments, on_gpu: what it was made for, as its target tells them apart, and as GPUs do
    settings: those in force when it was made; unchanged: whether its closure is as it was
    quick: the launcher's, see `Launcher`; gpu: the launcher, where it is one for GPUs
    blocks: see `blocks_of`; decides nothing but the groups of a kernel that leaves them open
    """

    program: Program
    compiled: Compiled | None
    launcher: Launcher
    settings: Settings
    unchanged: Callable[[], bool]
    arguments: Described
    on_gpu: tuple[Argument, ...]
    tuned: bool
    quick: Callable[..., bool] | None
    gpu: StreamLauncher | None
    blocks: tuple[int, ...] | None = None

    def run(self, values: tuple[object, ...]) -> bool:
        """Run on `values` when this is the plan for them; False, having done nothing, when it may not be."""
        if self.settings is not current() or not self.unchanged():
            return False
        gpu = self.gpu
        if gpu is not None:  # it takes nothing but extents that it has seen with this plan
            return gpu.quick(values) or gpu.run(values)
        if self.tuned and shape_class(values) != self.arguments.shape_class:
            return False
        return self.quick is not None and self.quick(values)

    def run_on(self, values: tuple[object, ...], grid: Grid | None, stream: Stream | None) -> bool:
        """Run on a grid and a stream, as `run` does; only GPUs have a fast path for a stream."""
        if not self.valid():
            return False
        if self.program.chosen and grid is not None and self.blocks != blocks_of(grid):
            return False
        gpu = self.gpu
        if gpu is not None:
            return (stream is None or not stream.queued) and gpu.run(values, grid, stream)
        return stream is None and not self.tuned and self.quick is not None and self.quick(values, grid)

    def valid(self) -> bool:
        """Return whether the kernel would be compiled the same way now."""
        return self.settings is current() and self.unchanged()


def blocks_of(grid: Grid | None) -> tuple[int, ...] | None:
    """Return the lanes of a group along each axis, for a launch that gives several axes; None for any other."""
    if grid is None or max(len(grid.blocks), len(grid.threads or ())) == 1:
        return None
    axes = max(len(grid.blocks), len(grid.threads or ()))
    return (*(grid.threads or ()), 1, 1, 1)[:axes]


class SpecializationCache:
    """The plans for arguments of one kind; which extents each was specialised on is found out by building it."""

    def __init__(self) -> None:
        self._plans: dict[tuple[Places, Pairs], dict[tuple[int, ...], Specialization]] = {}

    def find(self, described: Described) -> Specialization | None:
        """Return the plan for the extents of `described`: those it fixes, and those that must be equal."""
        for (places, pairs), plans in self._plans.items():
            plan = plans.get(_extents(described, places))
            if plan is not None and all(_extent(described, *a) == _extent(described, *b) for a, b in pairs):
                return plan
        return None

    def add(self, plan: Specialization) -> None:
        """Keep `plan` for its fixed extents, and for those that are to be the same."""
        places = tuple(
            (index, axis)
            for index, parameter in enumerate(plan.program.parameters)
            if isinstance(parameter.value.type, Array)
            for axis, extent in enumerate(parameter.value.type.shape)
            if isinstance(extent, int)
        )
        kept = self._plans.setdefault((places, plan.program.same_extents), {})
        kept[_extents(plan.arguments, places)] = plan


def _extents(described: Described, places: Places) -> tuple[int, ...]:
    return tuple(_extent(described, index, axis) for index, axis in places)


def _extent(described: Described, index: int, axis: int) -> int:
    argument = described.arguments[index]
    return argument.shape[axis] if isinstance(argument, ArrayArgument) else -1
