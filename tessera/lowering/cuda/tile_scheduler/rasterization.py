"""Emit rasterization: map the number of a work tile to the group that is computed as that number."""

from tessera.core.mlir import Index, ir
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import INDEX, IndexBuilder
from tessera.lowering.cuda.schedule.rasterization import has_raster_groups
from tessera.lowering.cuda.tile_scheduler.load_balance import LoadBalancedOrder


def group_count(frame: GpuFunction, schedule: TileSchedule) -> ir.Value:
    """Return the number of work tiles: the groups, rounded up so that every cluster has whole columns."""
    if schedule.cluster == 1:
        return frame.build.index(frame.groups())
    rows, columns = (frame.trips(*each) for each in frame.rule.ranges)
    return frame.build.index(frame.build.mul(_whole(frame.build, rows, schedule.cluster), columns))


def ordered(frame: GpuFunction, schedule: TileSchedule, number: Index) -> Index:
    """Return the group done as number `number` where `place` has no rule: see `LoadBalancedOrder` for unequal work."""
    build, ranges = frame.build, frame.rule.ranges
    if not schedule.load_balance or not ranges:
        return number
    count = frame.trips(*ranges[-1])
    others = build.divide_words(frame.groups(), count)
    return LoadBalancedOrder(build, frame.blocks(), others, count, grows=schedule.load_balance > 0).group(number)


def is_banded(frame: GpuFunction, schedule: TileSchedule) -> bool:
    """Return whether groups have a row and a column, and are rasterized (see `place`)."""
    return not schedule.load_balance and has_raster_groups(frame.rule.ranges)


def place(frame: GpuFunction, schedule: TileSchedule, number: Index) -> tuple[Index, Index]:
    """Return the row and the column of the group that is done as number `number`.

    Raster groups of `schedule.raster_group` rows are done column after column, so that blocks that run at the
    same time share rows of A and columns of B, which stay in L2.  The blocks of a cluster then lie one below the other;
    where rows are missing for that, the last one is done twice, with the same result.

    No block copies anything before it knows its place: divisions have 32 bits, and a constant divisor in whole groups.
    """
    build = frame.build
    rows, columns = (frame.trips(length, step) for length, step in frame.rule.ranges)
    padded = _whole(build, rows, schedule.cluster)
    whole = build.mul(columns, schedule.raster_group)
    raster_group = _quotient(build, number, whole)
    first = build.mul(raster_group, schedule.raster_group)
    height = build.minimum(build.sub(padded, first), schedule.raster_group)
    inside = build.sub(number, build.mul(raster_group, whole))
    column = _quotient(build, inside, height, usual=schedule.raster_group)
    row = build.add(first, build.sub(inside, build.mul(column, height)))
    if schedule.cluster > 1:
        row = build.minimum(row, build.sub(rows, 1))
    return row, column


def numbered(frame: GpuFunction, where: tuple[Index, Index]) -> Index:
    """Return the number of the group in this row and column."""
    row, column = where
    return frame.build.add(frame.build.mul(row, frame.trips(*frame.rule.ranges[1])), column)


def _quotient(build: IndexBuilder, a: Index, b: Index, usual: int = 0) -> Index:
    """Return a // b of numbers below 2 ** 32; `usual`: the value that b nearly always has."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b

    if not usual:
        return build.divide_words(a, b)
    return build.choose(
        build.compare("eq", b, usual),
        lambda: build.index(build.divide(a, usual)), lambda: build.index(build.divide_words(a, b)), INDEX,
    )  # fmt: skip


def _whole(build: IndexBuilder, rows: Index, cluster: int) -> Index:
    return build.mul(build.divide(build.add(rows, cluster - 1), cluster), cluster) if cluster > 1 else rows
