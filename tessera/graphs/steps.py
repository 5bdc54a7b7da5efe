"""Choose the blocks of a group's kernel: elements of a tile along each axis, by the machine and the extents."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import BY_NAME, COMPUTE_TYPES, DType
from tessera.core.graph.expr import Apply, arguments, walk
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Term
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE
from tessera.core.schedule.plan import ELEMENTS, MAPS, ROWS, SCATTER, Access, CascadeLoop, Group
from tessera.lowering.schedule.axes import AxisSpace
from tessera.lowering.schedule.emit.columns import SLAB
from tessera.lowering.schedule.form import MOST_PHASES, cascade_row, ends, product_axes
from tessera.performance import schedules
from tessera.performance.machine_kind import MachineKind

LONG_COLUMN: Final = 256
"""Longest column that is one tile with its neighbours on a GPU."""
LONG_ON_CPU: Final = 2048
"""The same on the CPU, where a tile of it lies in a cache."""
COLUMNS_TOGETHER: Final = 32
"""Columns side by side: 64 bytes of short floats, and groups enough for every multiprocessor from 4096 columns on."""
_WORD: Final = 32
"""Bits of the shortest type whose sums are not rounded between slabs."""
_SHORT: Final = 16
_IMAGES: Final = 64
"""Images of a block of 128 rows whose pixels lie far apart: one or two of each."""
_FUNCTIONS: Final = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "pow")
_LINE: Final = 16
"""Elements of f32 in a line of the CPU's caches: the other parts of it would be read again for other columns."""
_LONG: Final = ("pow",)
"""Functions that stay long where the hardware may approximate: the others are a few instructions then."""

_LONG_BLOCK: Final = 4096
_LONG_ROWS: Final = 1
"""Blocks of long rows: elements, and rows at a time."""


@dataclass(frozen=True, slots=True)
class Steps:
    """blocks: elements along each axis; options: schedule options of the kernel."""

    blocks: Mapping[int, int]
    options: Mapping[str, Attribute]


def steps_of(group: Group, machine: MachineKind) -> Steps:
    """Return the blocks and the schedule options of a group."""
    if group.kind in (ELEMENTS, SCATTER):
        return Steps({}, {})
    if group.kind == MAPS:
        return Steps(_tile_of_maps(group), {})
    if group.kind == ROWS:
        return Steps(_rows(group, machine), {})
    if group.loop is not None:
        return Steps(_cascade(group, group.loop, machine), _approximations(group))
    return _product(group, machine)


def _tile_of_maps(group: Group) -> dict[int, int]:
    """About 4096 elements: as much of the last axis as there is, up to 1024, and rows of it."""
    axes = group.axes[group.outputs[0]]
    if not axes:
        return {}
    columns = schedules.clamp(group.extents[axes[-1]], 1, 1024)
    blocks = {axes[-1]: columns}
    # Joined axes bring forward one that was not blocked when the group was formed: it may be read with steps.
    if len(axes) > 1 and _in_steps_of_one(group, axes[-2]):
        blocks[axes[-2]] = schedules.clamp(group.extents[axes[-2]], 1, max(1, 4096 // columns))
    return blocks


def _in_steps_of_one(group: Group, axis: int, *, padded: bool = False) -> bool:
    """Return whether every array is read along an axis one element after the other, and nowhere past its ends.

    padded: it may be read past its ends, from an element on that other axes tell, and in the steps of an access
    """
    for access in (*group.loads.values(), *group.stores.values()):
        for affine, step in zip(access.index, access.steps or (1,) * len(access.index), strict=True):
            mine = [term for term in affine.terms if term.axis == axis]
            plain = mine == [Term(axis, step)] if padded else affine.axis == axis and not access.padded
            if mine and not plain:
                return False
    return True


def _rows(group: Group, machine: MachineKind) -> dict[int, int]:
    """Whole rows, several at a time where they are short; columns by cache lines on the CPU, and long ones in slabs."""
    length = 1
    for axis in group.reduced:
        length *= group.extents[axis]
    anchor = next(node for node in group.members if node.op == "reduce")
    kept = group.axes[anchor.result]
    longest = LONG_COLUMN if machine.is_gpu else LONG_ON_CPU
    if len(group.reduced) == 1 and length > longest and kept and _are_columns(group, group.reduced[0], kept[-1]):
        return {group.reduced[0]: SLAB, kept[-1]: schedules.clamp(group.extents[kept[-1]], 1, COLUMNS_TOGETHER)}
    blocks = {axis: group.extents[axis] for axis in group.reduced}
    if kept:
        rows = schedules.rows_schedule(length)["ROWS"]
        if not machine.is_gpu and group.axes[anchor.operands[0]][-1] == kept[-1]:
            rows = max(rows, _LINE)
        blocks[kept[-1]] = min(rows, schedules.power_of_two(group.extents[kept[-1]]))
    return blocks


def _are_columns(group: Group, reduced: int, kept: int) -> bool:
    """Return whether elements of different columns lie side by side in memory, those of one column in steps."""
    if any(node.op == "reduce" and node.result.type.dtype.bits < _WORD for node in group.members):
        return False
    accesses = (*group.loads.values(), *group.stores.values())
    matrices = [
        each for each in accesses if {reduced, kept} <= {term.axis for part in each.index for term in part.terms}
    ]
    side_by_side = all(each.index[-1].axis == kept for each in matrices)
    return bool(matrices) and side_by_side and all(_in_steps_of_one(group, axis) for axis in (reduced, kept))


def _cascade(group: Group, loop: CascadeLoop, machine: MachineKind) -> dict[int, int]:
    """The library's blocks of attention and of its gradients: rows and steps of the loop; other axes are whole."""
    blocks = {axis: group.extents[axis] for axis in (*loop.inner, *loop.columns)}
    row = cascade_row(loop, loop.columns, group.members, group.axes)
    if all(node.op != "contract" for node in group.members):
        return {loop.axis: _LONG_BLOCK, **({} if row is None else {row: _LONG_ROWS})}
    dtype = _widest(group, loop, row)
    width = max((group.extents[axis] for axis in (*loop.inner, *loop.columns)), default=1)
    rows = 1 if row is None else group.extents[row]
    blocks[loop.axis], most = _steps_of_loop(group, loop, machine, (rows, width), dtype)
    if row is not None:
        blocks[row] = most
    return blocks


def _widest(group: Group, loop: CascadeLoop, row: int | None) -> DType:
    """Return the longest float of which blocks are read; vectors take few registers."""
    blocked = {loop.axis, row, *loop.inner, *loop.columns}
    dtypes = [
        value.type.dtype
        for value, access in group.loads.items()
        if value.type.dtype.is_float and len(blocked & {t.axis for affine in access.index for t in affine.terms}) > 1
    ]
    return max(dtypes, key=lambda each: each.bits) if dtypes else BY_NAME["f32"]


def _steps_of_loop(
    group: Group, loop: CascadeLoop, machine: MachineKind, size: tuple[int, int], dtype: DType
) -> tuple[int, int]:  # fmt: skip
    """Return the elements of a step of the loop and the rows, by the products inside of the loop and those it sums.

    size: rows, and the width of a head
    """
    (rows, width), length = size, group.extents[loop.axis]
    inside = [node for node in group.members if node.op == "contract" and node not in loop.reductions]
    columns = set(loop.columns)
    summed = [
        moment for moment in loop.cascade.moments
        if any(columns & set(group.axes[loop.atoms[number]]) for number in arguments(moment.payload))
    ]  # fmt: skip
    if len(inside) > 1 and len(summed) > 1:
        chosen = schedules.backward_schedule(machine, length, rows, width, dtype)
        return chosen["BM"], chosen["BN"]
    if len(inside) > 1:
        chosen = schedules.backward_queries_schedule(machine, rows, length, width, dtype)
    else:
        chosen = schedules.forward_schedule(machine, rows, length, width, dtype, causal=True)
    return chosen["BN"], chosen["BM"]


def _product(group: Group, machine: MachineKind) -> Steps:
    """The library's blocks for a product of this size; `tile_shape=` of the user goes before them."""
    anchor = next(node for node in group.members if node.op == "contract")
    left, right = (group.axes[operand] for operand in anchor.operands)
    result = group.axes[anchor.result]
    row, column, step = product_axes(anchor, AxisSpace(group.extents, group.axes))
    along_rows = _until(row, [n for n in result if n in left and n not in right])
    along_columns = _until(column, [n for n in result if n in right and n not in left])
    rows = _side(group, anchor.operands[0], step, along_rows, () if column is None else (column,))
    columns = _side(group, anchor.operands[1], step, along_columns, rows)
    extents = group.extents
    m, n = (math.prod(extents[axis] for axis in side) for side in (rows, columns))
    k = extents[step]
    dtype = anchor.operands[0].type.dtype
    compute = str(anchor.attributes["compute"] or "")
    rounded = compute in COMPUTE_TYPES and dtype == BY_NAME["f32"]
    sums = sum(node.op == "contract" for node in group.members)
    options = _approximations(group)
    if machine.is_gpu:
        heavy = _heavy(group, _LONG if options else _FUNCTIONS) or _has_many_blocks(group, result)
        chosen = schedules.gemm_schedule(machine, m, n, k, dtype, rounded=rounded, heavy=heavy, sums=sums)
        images = schedules.rectangle(machine, [extents[axis] for axis in rows], chosen["BM"])[:-1]
        if machine.wgmma and dtype.bits == _SHORT and max(images, default=1) >= _IMAGES and not heavy and sums == 1:
            chosen = schedules.distant_rows(chosen, n)
    else:
        others = math.prod(extents[axis] for axis in result) // max(1, m * n)
        chosen = schedules.even_gemm(m, n, k, batch=max(1, others), sums=sums)
    if machine.is_gpu and dtype.is_storage:
        chosen = schedules.byte_schedule(
            chosen, along_k=all(_ends_with(group, each, step) for each in anchor.operands),
            aligned=all(_in_words(group, each) for each in anchor.operands), added=len(group.loads) > 2,
        )  # fmt: skip
    wished = anchor.attributes["tile_shape"]
    if isinstance(wished, tuple) and wished:
        chosen |= {name: size for name, size in zip(("BM", "BN", "BK"), wished, strict=False) if isinstance(size, int)}
    exact = any(
        term.axis == step and not ends(affine, k, size)
        for access in group.loads.values()
        for size, affine in zip(access.shape, access.index, strict=True)
        for term in affine.terms
    )
    # What lies behind the axis in memory are other elements: the step must end where it does.
    blocks = {step: k if exact else chosen["BK"]}
    for axes, name in ((rows, "BM"), (columns, "BN")):
        sizes = schedules.rectangle(machine, [extents[axis] for axis in axes], chosen[name])
        blocks.update(zip(axes, sizes, strict=True))
    scheduled = {name: value for name, value in chosen.items() if name in SCHEDULE}
    return Steps(blocks, {**scheduled, **options})


def _until(last: int | None, axes: Sequence[int]) -> Sequence[int]:
    """Return axes up to the one along which blocks lie; none where there are none."""
    return axes if last is None else axes[: axes.index(last) + 1]


def _side(group: Group, operand: Value, step: int, axes: Sequence[int], other: Collection[int]) -> Sequence[int]:
    """Return the last axes of one side of a product of which a block has several elements: it is a box everywhere.

    They follow each other in the operand and in the outputs, with no other axis that has blocks in between, in steps of
    one: images, rows and columns of a convolution whose channels come last.  An axis that shifts what is read along the
    step has one element: a box has one axis of a block along each axis of an array.
    other: axes of the other side that have blocks
    """
    if len(axes) < 2:
        return axes
    arrays = [group.loads[group.loaded_as[operand]], *(group.stores[value] for value in group.outputs)]
    side = [axes[-1]]
    for axis in reversed(axes[:-1]):
        longer = [axis, *side]
        separate = _in_steps_of_one(group, axis, padded=True) and not _meet(group, axis, step)
        if not separate or not all(_neighbours(group, each, longer, other) for each in arrays):
            break
        side = longer
    return side


def _meet(group: Group, axis: int, other: int) -> bool:
    """Return whether two axes of a group tell one index of an array together, as windows and taps of a filter do."""
    return any(
        {axis, other} <= {term.axis for term in affine.terms}
        for access in group.loads.values()
        for affine in access.index
    )


def _neighbours(group: Group, access: Access, axes: Sequence[int], other: Collection[int]) -> bool:
    """Return whether axes of a group are those of neighboring axes of an array, in this order.

    Phases of a transposed convolution may lie in between: short axes that have no blocks.
    """
    terms = [{term.axis for term in affine.terms} for affine in access.index]
    numbers = [[n for n, present in enumerate(terms) if axis in present] for axis in axes]
    if any(len(each) != 1 for each in numbers):
        return False
    order = [n for (n,) in numbers]
    between = [terms[n] for n in range(order[0], order[-1]) if n not in order]
    short = all(group.extents[axis] <= MOST_PHASES and axis not in other for present in between for axis in present)
    return order == sorted(order) and short and all(between)


def _ends_with(group: Group, factor: Value, axis: int) -> bool:
    """Return whether an axis is the one along which the elements of a factor lie side by side."""
    return group.loads[factor].index[-1].axis == axis


def _in_words(group: Group, factor: Value) -> bool:
    """Return whether the rows of a factor are whole words of 16 bytes."""
    return group.loads[factor].shape[-1] * factor.type.dtype.bytes % 16 == 0


def _heavy(group: Group, functions: tuple[str, ...] = _FUNCTIONS) -> bool:
    """Return whether the epilogue has some of these functions, which need registers of their own."""
    bodies = [node.expr for node in group.members if node.op == "map"]
    return any(isinstance(each, Apply) and each.opcode in functions for body in bodies for each in walk(body))


def _has_many_blocks(group: Group, axes: Sequence[int]) -> bool:
    """Return whether an epilogue keeps more in registers than the sums and one array beside them, for its functions.

    So it is with several arrays of the sums' size that it reads and several that it writes, as in a backward pass of a
    gate, and with several functions of what it reads, as in one of gelu: both kept values in memory (3500 and 864 bytes
    a lane on sm_90a, twice the time of the product for the former).
    """
    read = sum(set(axes) <= {term.axis for affine in access.index for term in affine.terms}
               for access in group.loads.values())  # fmt: skip
    bodies = [node.expr for node in group.members if node.op == "map"]
    found = {each for body in bodies for each in walk(body) if isinstance(each, Apply) and each.opcode in _FUNCTIONS}
    return bool(found) and ((read > 1 and len(group.outputs) > 1) or (read > 0 and len({e.opcode for e in found}) > 1))


def _approximations(group: Group) -> dict[str, Attribute]:
    """Let GPUs use their own exponentials beside tensor cores, whose sums are other bits than elsewhere already."""
    exact = any(node.op == "contract" and node.attributes["exact"] for node in group.members)
    return {} if exact or not _heavy(group) else {"fast": True}
