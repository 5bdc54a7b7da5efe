"""The plan of a launch: how its groups are to be spread over the machine, before anything is measured.

What limits residency, in which order groups begin, how many waves that makes, and when each group should run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from tessera.core.resources import Occupancy
from tessera.core.schedule.tile_schedule import SCHEDULE, TileSchedule
from tessera.core.targets import generation
from tessera.core.work import Numbers, Shape, Work
from tessera.lowering.cuda.occupancy import occupancy
from tessera.performance.cost_model import Prediction, predict, resident
from tessera.performance.device_model import Machine
from tessera.performance.launch_geometry import GridAxis, TiledArray, grid_axes, raster_order, tiled_array
from tessera.performance.tile_timeline import PredictedTiles, predict_tiles
from tessera.runtime.launch.thread_pool import chunk_size
from tessera.session.compiled import Compiled

_ROWS_AND_COLUMNS: Final = 2
_NO_WORK: Final = ("dim", "const", "return")
"""Operations that stand at the kernel's signature, or for numbers."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The plan of one launch.

    axes: of its grid; array: the written array that the grid divides, None where none is divided that way
    occupancy: None on the CPU; per_unit: groups that a unit holds at a time; chunk: groups that a thread takes at once
    schedule: of the kernel as a whole, None where the target has none
    order: groups in the order in which they begin, in words; prediction: of the whole launch, with its parts
    lines: of the user's file that the groups run
    """

    axes: tuple[GridAxis, ...]
    array: TiledArray | None
    occupancy: Occupancy | None
    per_unit: int
    chunk: int
    schedule: TileSchedule | None
    order: str
    prediction: Prediction
    tiles: PredictedTiles
    lines: tuple[int, ...]

    @property
    def limited_by(self) -> str:
        """Say which resource keeps a unit from holding more groups, with the numbers; "" where none does."""
        if self.occupancy is None:
            return ""
        limits = [limit for limit in self.occupancy.limits if limit.blocks == self.occupancy.blocks]
        return " and ".join(
            f"{limit.cause} ({limit.used:,} of {limit.available:,} {limit.unit} a block)" for limit in limits
        )


def launch_plan(compiled: Compiled, shape: Shape, work: Work, machine: Machine) -> LaunchPlan:
    """Return the plan of a launch of `shape` on `machine`."""
    artifact = compiled.artifact
    axes = grid_axes(artifact, shape)
    full = block_occupancy(compiled) if machine.on_gpu else None
    if not machine.on_gpu:
        per_unit, chunk = 1, chunk_size(work.groups)
    else:
        per_unit, chunk = full.blocks if full is not None else resident(work, machine, artifact.launch.threads), 1
    schedule = tile_schedule(compiled) if machine.on_gpu else None
    order, told = _order(axes, schedule)
    if chunk > 1:
        told += f", {chunk} at a time to each thread"
    tiles = predict_tiles(
        work, machine, per_unit=max(1, per_unit), chunk=chunk, order=order, persistent=artifact.launch.persistent,
        lanes=artifact.launch.threads,
    )  # fmt: skip
    return LaunchPlan(
        axes, tiled_array(artifact, axes, shape.extents), full, max(1, per_unit), chunk, schedule, told,
        predict(work, machine, artifact.launch.threads), tiles, kernel_lines(compiled),
    )  # fmt: skip


def block_occupancy(compiled: Compiled) -> Occupancy | None:
    """Return the occupancy of a compiled kernel's blocks; None for a target, or a kernel, that has no registers."""
    artifact = compiled.artifact
    chip, resources = generation(artifact.target.arch), artifact.resources
    threads = resources.lanes or artifact.launch.threads
    if chip is None or resources.registers is None or not threads:
        return None
    return occupancy(chip, threads, resources.registers, resources.shared_bytes)


def tile_schedule(compiled: Compiled) -> TileSchedule | None:
    """Return the schedule that passes chose for a kernel as a whole, from the last Tile IR; None where there is none.

    Looks at the levels of the compilation, which compiles once more where they were not looked at yet.
    """
    found: TileSchedule | None = None
    for stage in compiled.stages:
        if stage.level != "tile":
            continue
        for record in stage.records:
            given = record.attributes.get(SCHEDULE)
            if isinstance(given, tuple):
                found = TileSchedule.parse(dict(cast("tuple[tuple[str, object], ...]", given)))
    return found


def kernel_lines(compiled: Compiled) -> tuple[int, ...]:
    """Return the lines of the user's file that a compiled kernel's operations come from."""
    name = compiled.artifact.source.name
    ops = (op for op in compiled.program.body.walk() if op.opcode not in _NO_WORK)
    return tuple(sorted({op.span.line for op in ops if op.span.file == name}))


def _order(axes: tuple[GridAxis, ...], schedule: TileSchedule | None) -> tuple[Numbers | None, str]:
    """Return the groups in the order in which they begin (None: by number), and that order in words."""
    if schedule is None:
        return None, "by number"
    if schedule.load_balance:
        return None, "large and small groups in pairs (drawn by number)"
    banded = len(axes) == _ROWS_AND_COLUMNS and (schedule.raster_group > 1 or schedule.cluster > 1)
    if not banded:
        return None, "by number"
    rows, columns = (axis.size for axis in axes)
    told = f"in bands of {schedule.raster_group} rows, column after column"
    if schedule.cluster > 1:
        told += f", clusters of {schedule.cluster}"
    return raster_order(rows, columns, schedule.raster_group, schedule.cluster), told


def schedule_marks(schedule: TileSchedule | None) -> Mapping[str, str]:
    """Return what a person reads of a schedule, by name."""
    return dict(schedule.marks()) if schedule is not None else {}
