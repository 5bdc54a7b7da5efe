"""Choose the order of a persistent kernel's tiles (rasterization), and the clusters whose blocks share loads."""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.expressions import Expression
from tessera.core.program.program import Program
from tessera.lowering.base.launch_grid import ranges_of
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan
from tessera.lowering.cuda.schedule.view import ScheduleView

_ROWS_AND_COLUMNS: Final = 2
_RESIDENT: Final = 128
"""Groups that run at the same time, about: large parts have 108 to 148 multiprocessors."""
_AXES: Final = {"arith.divui": 0, "arith.remui": 1}
"""The group's number divided by the number of columns: quotient (row) and remainder (column)."""


def load_imbalance(rings: list[PipelinePlan]) -> int:
    """Return whether a pipelined loop is longer in later groups (1), in earlier ones (-1), or neither (0).

    The index along the last range is the group's number modulo the range's count: a bound made of it differs from
    group to group; an upper one is taken to grow with it.
    """
    for ring in rings:
        if ring.in_loop:
            lower, upper = list(ring.block.owner.operation.operands)[:2]
            for bound, direction in ((upper, 1), (lower, -1)):
                if _depends_on_group(bound):
                    return direction
    return 0


def _depends_on_group(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "arith.remui":
        number = op.operands[0].owner
        if not isinstance(number, ir.Block) and number.operation.name == "tessera.id":
            return True
    return any(_depends_on_group(operand) for operand in op.operands)


def raster_group_of(function: AnyOp) -> int:
    """Return how many rows of groups to rasterize together where the option `raster_group` is absent.

    Groups that run at the same time then have as many elements along rows as along columns, so that they read least
    between them: with blocks of 128 x 256, raster groups of 16 read 1.22 GB of memory for 8192 x 8192 x 8192, of 8 1.49
    GB.
    """
    grid = [step for _, step in ranges_of(function)]
    if len(grid) != _ROWS_AND_COLUMNS:
        return 1
    rows, columns = grid
    return 1 << ((_RESIDENT * columns // rows).bit_length() // 2)


def cluster_of(function: AnyOp, program: Program, plan: ScheduleView) -> tuple[int, set[AnyOp]]:
    """Return the number of blocks of a cluster and the loads that they share: (1, nothing) without clusters.

    Blocks of a cluster take groups of one column, so they share what depends on the column alone: each loads a part
    of it, for all of them (TMA multicast).
    """
    wanted = program.options.get("cluster", 1)
    grid = [step for _, step in ranges_of(function)]
    if wanted != 2 or len(grid) != _ROWS_AND_COLUMNS or 1 in grid:
        return 1, set()
    if plan.written & plan.loaded:
        return 1, set()
    shared = {load for ring in plan.rings if ring.in_loop for load in ring.loads if not _depends_on_row(load)}
    return (2, shared) if shared and all(ring.in_loop for ring in plan.rings) else (1, set())


def _depends_on_row(load: AnyOp) -> bool:
    """Return whether a load's address depends on the group's row: its number divided by the number of columns."""
    seen: set[ir.Value] = set()
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


def _is_group(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tessera.id"


def axis_of(op: AnyOp) -> int | None:
    """Return which index of a group in rows and columns an operation computes: 0, 1, or None.

    Kernels whose groups come from ranges use a group's number for nothing else.
    """
    return _AXES[op.name] if op.name in _AXES and _is_group(op.operands[0]) else None


def has_raster_groups(ranges: Sequence[tuple[Expression, int]]) -> bool:
    """Return whether groups that are spread over these ranges have a row and a column."""
    return len(ranges) == _ROWS_AND_COLUMNS and all(step > 1 for _, step in ranges)
