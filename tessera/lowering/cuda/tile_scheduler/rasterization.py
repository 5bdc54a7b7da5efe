"""Emit the order in which a kernel's groups are done: from a number to the group that is done as that number."""

from typing import Any

from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import INDEX, IndexBuilder
from tessera.lowering.cuda.schedule.rasterization import has_bands
from tessera.lowering.cuda.tile_scheduler.load_balance import LoadBalancedOrder


def group_count(frame: GpuFunction, schedule: TileSchedule) -> Any:
    """How many numbers there are: the groups, rounded up so that every cluster has whole columns."""
    if schedule.cluster == 1:
        return frame.build.index(frame.groups())
    rows, columns = (frame.trips(*each) for each in frame.rule.ranges)
    return frame.build.index(frame.build.mul(_whole(frame.build, rows, schedule.cluster), columns))


def ordered(frame: GpuFunction, schedule: TileSchedule, number: Any) -> Any:
    """Return the group done as number `number` where `place` has no rule: see `LoadBalancedOrder` for unequal work."""
    build, ranges = frame.build, frame.rule.ranges
    if not schedule.load_balance or not ranges:
        return number
    count = frame.trips(*ranges[-1])
    others = build.divide_words(frame.groups(), count)
    return LoadBalancedOrder(build, frame.blocks(), others, count, grows=schedule.load_balance > 0).group(number)


def is_banded(frame: GpuFunction, schedule: TileSchedule) -> bool:
    """Whether groups have a row and a column, and are done in bands (see `place`)."""
    return not schedule.load_balance and has_bands(frame.rule.ranges)


def place(frame: GpuFunction, schedule: TileSchedule, number: Any) -> tuple[Any, Any]:
    """The row and the column of the group that is done as number `number`.

    Bands of `schedule.raster_group` rows are done column after column, so that blocks that run at the same time share
    rows of one factor and columns of the other, which stay in L2.  Neighbours of a cluster are then one below the
    other; where rows are missing for that, the last one is done twice, with the same result.

    No block copies anything before it knows its place: divisions are of 32 bits, and by a constant in whole bands.
    """
    build = frame.build
    rows, columns = (frame.trips(length, step) for length, step in frame.rule.ranges)
    padded = _whole(build, rows, schedule.cluster)
    whole = build.mul(columns, schedule.raster_group)
    band = _quotient(build, number, whole)
    first = build.mul(band, schedule.raster_group)
    height = build.minimum(build.sub(padded, first), schedule.raster_group)
    inside = build.sub(number, build.mul(band, whole))
    column = _quotient(build, inside, height, usual=schedule.raster_group)
    row = build.add(first, build.sub(inside, build.mul(column, height)))
    if schedule.cluster > 1:
        row = build.minimum(row, build.sub(rows, 1))
    return row, column


def numbered(frame: GpuFunction, where: tuple[Any, Any]) -> Any:
    """The number of the group in this row and column."""
    row, column = where
    return frame.build.add(frame.build.mul(row, frame.trips(*frame.rule.ranges[1])), column)


def _quotient(build: IndexBuilder, a: Any, b: Any, usual: int = 0) -> Any:
    """a // b of numbers below 2 ** 32; `usual`: what b nearly always is."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b

    if not usual:
        return build.divide_words(a, b)
    return build.choose(
        build.compare("eq", b, usual),
        lambda: build.index(build.divide(a, usual)), lambda: build.divide_words(a, b), INDEX,
    )  # fmt: skip


def _whole(build: IndexBuilder, rows: Any, cluster: int) -> Any:
    return build.mul(build.divide(build.add(rows, cluster - 1), cluster), cluster) if cluster > 1 else rows
