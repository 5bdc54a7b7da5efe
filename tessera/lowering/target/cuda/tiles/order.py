"""In which order a kernel's groups are done, and which blocks share what they load."""

from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.frame import Frame
from tessera.lowering.target.cuda.tiles.plan import Plan
from tessera.lowering.target.launch import ranges_of

_BAND: Final = 8
_ROWS_AND_COLUMNS: Final = 2


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
        if op.name == "arith.divui" and _is_group(op.operands[0]):
            return True
        if op.name == "arith.remui" and _is_group(op.operands[0]):
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
    rows, columns = (_count(frame.build, frame, *each) for each in frame.rule.ranges)
    return frame.build.index(frame.build.mul(_whole(frame.build, rows, plan.cluster), columns))


def ordered(frame: Frame, plan: Plan, number: Any) -> Any:
    """The group that is done as number `number`.

    Groups of unequal work: the large ones first, so that small ones fill the gaps at the end.  Groups along rows and
    columns: in bands of 8 rows, column after column, so that blocks that run at the same time share rows of one factor
    and columns of the other, which stay in L2.  Neighbours of a cluster are then one below the other; where rows are
    missing for that, the last one is done twice, with the same result.
    """
    build, ranges = frame.build, frame.rule.ranges
    if plan.uneven and ranges:
        return _large_first(build, number, frame.groups(), _count(build, frame, *ranges[-1]), last=plan.uneven > 0)
    if len(ranges) != _ROWS_AND_COLUMNS or any(step == 1 for _, step in ranges):
        return number
    rows, columns = (_count(build, frame, extent, step) for extent, step in ranges)
    padded = _whole(build, rows, plan.cluster)
    whole = build.mul(columns, _BAND)
    band = build.divide(number, whole)
    first = build.mul(band, _BAND)
    height = build.minimum(build.sub(padded, first), _BAND)
    inside = build.remainder(number, whole)
    row = build.add(first, build.remainder(inside, height))
    if plan.cluster > 1:
        row = build.minimum(row, build.sub(rows, 1))
    return build.add(build.mul(row, columns), build.divide(inside, height))


def _whole(build: Build, rows: Any, cluster: int) -> Any:
    return build.mul(build.divide(build.add(rows, cluster - 1), cluster), cluster) if cluster > 1 else rows


def _large_first(build: Build, number: Any, groups: Any, count: Any, *, last: bool) -> Any:
    """The last range slowest, from its end where the last ones are large."""
    others = build.divide(groups, count)
    place = build.divide(number, others)
    if last:
        place = build.sub(build.sub(count, 1), place)
    return build.add(build.mul(build.remainder(number, others), count), place)


def _count(build: Build, frame: Frame, extent: int | str, step: int) -> Any:
    length = frame.symbols[extent] if isinstance(extent, str) else extent
    return build.divide(build.add(length, step - 1), step)
