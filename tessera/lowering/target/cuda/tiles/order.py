"""In which order a kernel's groups are done, and which blocks share what they load."""

from collections.abc import Sequence
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.lowering.target.cuda.build import INDEX, Build
from tessera.lowering.target.cuda.frame import Frame
from tessera.lowering.target.cuda.tiles.pipeline import RingPlan
from tessera.lowering.target.cuda.tiles.plan import Plan
from tessera.lowering.target.cuda.tiles.uneven import Uneven
from tessera.lowering.target.launch import ranges_of

_ROWS_AND_COLUMNS: Final = 2
_RESIDENT: Final = 128
"""Groups that run at the same time, about: large parts have 108 to 148 multiprocessors."""
_AXES: Final = {"arith.divui": 0, "arith.remui": 1}
"""A group's number divided by the count of the last range: its row, and its column."""


def unevenness(rings: list[RingPlan]) -> int:
    """Whether a loop that copies ahead is longer in later groups (1), in earlier ones (-1), or neither (0).

    The index along the last range is the group's number modulo the range's count: a bound made of it differs from
    group to group; an upper one grows with it, as far as anybody has seen.
    """
    for ring in rings:
        if ring.in_loop:
            lower, upper = list(ring.block.owner.operation.operands)[:2]
            for bound, direction in ((upper, 1), (lower, -1)):
                if _depends_on_group(bound):
                    return direction
    return 0


def _depends_on_group(value: Any) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "arith.remui":
        number = op.operands[0].owner
        if not isinstance(number, ir.Block) and number.operation.name == "tessera.id":
            return True
    return any(_depends_on_group(operand) for operand in op.operands)


def band_of(function: Any) -> int:
    """How many rows of groups to do side by side, where nobody says.

    Groups that run at the same time then have as many elements along rows as along columns, so that they read least
    between them: with blocks of 128 x 256, bands of 16 read 1.22 GB of memory for 8192 x 8192 x 8192, of 8 1.49 GB.
    """
    grid = [step for _, step in ranges_of(function)]
    if len(grid) != _ROWS_AND_COLUMNS:
        return 1
    rows, columns = grid
    return 1 << ((_RESIDENT * columns // rows).bit_length() // 2)


def cluster_of(function: Any, program: Program, plan: Plan) -> tuple[int, set[Any]]:
    """How many blocks work as a cluster, and the loads that they share: (1, nothing) for blocks on their own.

    Blocks of a cluster do groups one below the other, so what depends on the column alone is the same for all: each
    loads a part of it, for all of them.
    """
    wanted = program.options.get("cluster", 1)
    grid = [step for _, step in ranges_of(function)]
    if wanted != 2 or len(grid) != _ROWS_AND_COLUMNS or 1 in grid:
        return 1, set()
    if plan.uneven or plan.written & plan.loaded:
        return 1, set()
    shared = {load for ring in plan.rings if ring.in_loop for load in ring.loads if not _depends_on_row(load)}
    return (2, shared) if shared and all(ring.in_loop for ring in plan.rings) else (1, set())


def _depends_on_row(load: Any) -> bool:
    """Whether a load's place depends on the first range's index: the group's number divided by the second's count."""
    seen: set[Any] = set()
    waiting = list(load.operands)[1:]
    while waiting:
        value = waiting.pop()
        if value in seen or isinstance(value.owner, ir.Block):
            continue
        seen.add(value)
        op = value.owner.operation
        axis = axis_of(op)
        if axis is not None:
            if axis == 0:
                return True
            continue
        if _is_group(value):
            return True
        waiting += list(op.operands)
    return False


def _is_group(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tessera.id"


def group_count(frame: Frame, plan: Plan) -> Any:
    """How many numbers there are: the groups, rounded up so that every cluster has whole columns."""
    if plan.cluster == 1:
        return frame.build.index(frame.groups())
    rows, columns = (frame.trips(*each) for each in frame.rule.ranges)
    return frame.build.index(frame.build.mul(_whole(frame.build, rows, plan.cluster), columns))


def ordered(frame: Frame, plan: Plan, number: Any) -> Any:
    """The group that is done as number `number`, where `place` has no rule for it: of unequal work, see `Uneven`."""
    build, ranges = frame.build, frame.rule.ranges
    if not plan.uneven or not ranges:
        return number
    count = frame.trips(*ranges[-1])
    others = build.divide_words(frame.groups(), count)
    return Uneven(build, frame.blocks(), others, count, grows=plan.uneven > 0).group(number)


def is_banded(frame: Frame, plan: Plan) -> bool:
    """Whether groups have a row and a column, and are done in bands (see `place`)."""
    return has_bands(frame.rule.ranges, plan)


def has_bands(ranges: Sequence[tuple[Any, int]], plan: Plan) -> bool:
    """The same, of the ranges that are spread over groups."""
    return not plan.uneven and len(ranges) == _ROWS_AND_COLUMNS and all(step > 1 for _, step in ranges)


def place(frame: Frame, plan: Plan, number: Any) -> tuple[Any, Any]:
    """The row and the column of the group that is done as number `number`.

    Bands of `plan.band` rows are done column after column, so that blocks that run at the same time share rows of one
    factor and columns of the other, which stay in L2.  Neighbours of a cluster are then one below the other; where rows
    are missing for that, the last one is done twice, with the same result.

    No block copies anything before it knows its place: divisions are of 32 bits, and by a constant in whole bands.
    """
    build = frame.build
    rows, columns = (frame.trips(length, step) for length, step in frame.rule.ranges)
    padded = _whole(build, rows, plan.cluster)
    whole = build.mul(columns, plan.band)
    band = _quotient(build, number, whole)
    first = build.mul(band, plan.band)
    height = build.minimum(build.sub(padded, first), plan.band)
    inside = build.sub(number, build.mul(band, whole))
    column = _quotient(build, inside, height, usual=plan.band)
    row = build.add(first, build.sub(inside, build.mul(column, height)))
    if plan.cluster > 1:
        row = build.minimum(row, build.sub(rows, 1))
    return row, column


def numbered(frame: Frame, where: tuple[Any, Any]) -> Any:
    """The number of the group in this row and column."""
    row, column = where
    return frame.build.add(frame.build.mul(row, frame.trips(*frame.rule.ranges[1])), column)


def axis_of(op: Any) -> int | None:
    """Which index of a group that has a row and a column an operation gives: 0, 1, or None.

    Kernels whose groups come from ranges use a group's number for nothing else.
    """
    return _AXES[op.name] if op.name in _AXES and _is_group(op.operands[0]) else None


def _quotient(build: Build, a: Any, b: Any, usual: int = 0) -> Any:
    """a // b of numbers below 2 ** 32; `usual`: what b nearly always is."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b

    if not usual:
        return build.divide_words(a, b)
    return build.choose(
        build.compare("eq", b, usual),
        lambda: build.index(build.divide(a, usual)), lambda: build.divide_words(a, b), INDEX,
    )  # fmt: skip


def _whole(build: Build, rows: Any, cluster: int) -> Any:
    return build.mul(build.divide(build.add(rows, cluster - 1), cluster), cluster) if cluster > 1 else rows
