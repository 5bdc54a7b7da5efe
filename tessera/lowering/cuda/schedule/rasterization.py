"""Choose in which order a kernel's groups are done, and which blocks share what they load."""

from collections.abc import Sequence
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.lowering.base.launch_grid import ranges_of
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan
from tessera.lowering.cuda.schedule.view import ScheduleView

_ROWS_AND_COLUMNS: Final = 2
_RESIDENT: Final = 128
"""Groups that run at the same time, about: large parts have 108 to 148 multiprocessors."""
_AXES: Final = {"arith.divui": 0, "arith.remui": 1}
"""A group's number divided by the count of the last range: its row, and its column."""


def unevenness(rings: list[PipelinePlan]) -> int:
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


def cluster_of(function: Any, program: Program, plan: ScheduleView) -> tuple[int, set[Any]]:
    """How many blocks work as a cluster, and the loads that they share: (1, nothing) for blocks on their own.

    Blocks of a cluster do groups one below the other, so what depends on the column alone is the same for all: each
    loads a part of it, for all of them.
    """
    wanted = program.options.get("cluster", 1)
    grid = [step for _, step in ranges_of(function)]
    if wanted != 2 or len(grid) != _ROWS_AND_COLUMNS or 1 in grid:
        return 1, set()
    if plan.written & plan.loaded:
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


def axis_of(op: Any) -> int | None:
    """Which index of a group that has a row and a column an operation gives: 0, 1, or None.

    Kernels whose groups come from ranges use a group's number for nothing else.
    """
    return _AXES[op.name] if op.name in _AXES and _is_group(op.operands[0]) else None


def has_bands(ranges: Sequence[tuple[Any, int]]) -> bool:
    """Return whether groups that are spread over these ranges have a row and a column."""
    return len(ranges) == _ROWS_AND_COLUMNS and all(step > 1 for _, step in ranges)
