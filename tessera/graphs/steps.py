"""Choose the blocks of a group's kernel: elements of a tile along each axis, by the machine and the extents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import BY_NAME, COMPUTE_TYPES
from tessera.core.graph.expr import Apply, walk
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE
from tessera.core.schedule.plan import ELEMENTS, MAPS, ROWS, SCATTER, CascadeLoop, Group
from tessera.lowering.schedule.form import cascade_row, ends
from tessera.performance import schedules
from tessera.performance.machine_kind import MachineKind

_FUNCTIONS: Final = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "pow")


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
        return Steps(_rows(group), {})
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


def _in_steps_of_one(group: Group, axis: int) -> bool:
    """Return whether every array is read along an axis one element after the other, and nowhere past its ends."""
    for access in (*group.loads.values(), *group.stores.values()):
        for affine in access.index:
            if any(term.axis == axis for term in affine.terms) and (affine.axis != axis or access.padded):
                return False
    return True


def _rows(group: Group) -> dict[int, int]:
    """Whole rows, several at a time where they are short."""
    length = 1
    for axis in group.reduced:
        length *= group.extents[axis]
    blocks = {axis: group.extents[axis] for axis in group.reduced}
    anchor = next(node for node in group.members if node.op == "reduce")
    kept = group.axes[anchor.result]
    if kept:
        blocks[kept[-1]] = min(schedules.rows_schedule(length)["ROWS"], schedules.power_of_two(group.extents[kept[-1]]))
    return blocks


def _cascade(group: Group, loop: CascadeLoop, machine: MachineKind) -> dict[int, int]:
    """The library's blocks of attention: rows and steps of the loop; inner axes and columns are whole."""
    blocks = {axis: group.extents[axis] for axis in (*loop.inner, *loop.columns)}
    row = cascade_row(loop, loop.columns, group.members, group.axes)
    dtypes = [value.type.dtype for value in group.inputs if value.type.dtype.is_float]
    dtype = max(dtypes, key=lambda each: each.bits) if dtypes else BY_NAME["f32"]
    width = max((group.extents[axis] for axis in (*loop.inner, *loop.columns)), default=1)
    rows = 1 if row is None else group.extents[row]
    chosen = schedules.forward_schedule(machine, rows, group.extents[loop.axis], width, dtype, causal=True)
    blocks[loop.axis] = chosen["BN"]
    if row is not None:
        blocks[row] = chosen["BM"]
    return blocks


def _product(group: Group, machine: MachineKind) -> Steps:
    """The library's blocks for a product of this size; `tile_shape=` of the user goes before them."""
    anchor = next(node for node in group.members if node.op == "contract")
    left, right = (group.axes[operand] for operand in anchor.operands)
    result = group.axes[anchor.result]
    rows = [axis for axis in result if axis in left and axis not in right]
    columns = [axis for axis in result if axis in right and axis not in left]
    extents = group.extents
    inner = [axis for axis in group.reduced if axis in left and axis in right] or list(group.reduced)
    m, n, k = extents[rows[-1]] if rows else 1, extents[columns[-1]] if columns else 1, extents[inner[-1]]
    dtype = anchor.operands[0].type.dtype
    compute = str(anchor.attributes["compute"] or "")
    rounded = compute in COMPUTE_TYPES and dtype == BY_NAME["f32"]
    chosen: dict[str, int] = dict(
        schedules.gemm_schedule(machine, m, n, k, dtype, rounded=rounded, heavy=_heavy(group))
    )
    wished = anchor.attributes["tile_shape"]
    if isinstance(wished, tuple) and wished:
        chosen |= {name: size for name, size in zip(("BM", "BN", "BK"), wished, strict=False) if isinstance(size, int)}
    exact = any(
        term.axis == inner[-1] and not ends(affine, k, size)
        for access in group.loads.values()
        for size, affine in zip(access.shape, access.index, strict=True)
        for term in affine.terms
    )
    # What lies behind the axis in memory are other elements: the step must end where it does.
    blocks = {inner[-1]: k if exact else chosen["BK"]}
    if rows:
        blocks[rows[-1]] = chosen["BM"]
    if columns:
        blocks[columns[-1]] = chosen["BN"]
    options = {name: value for name, value in chosen.items() if name in SCHEDULE}
    return Steps(blocks, {**options, **_approximations(group)})


def _heavy(group: Group) -> bool:
    """Return whether the epilogue has functions that need registers of their own."""
    bodies = [node.expr for node in group.members if node.op == "map"]
    return any(isinstance(each, Apply) and each.opcode in _FUNCTIONS for body in bodies for each in walk(body))


def _approximations(group: Group) -> dict[str, Attribute]:
    """Let GPUs use their own exponentials beside tensor cores, whose sums are other bits than elsewhere already."""
    exact = any(node.op == "contract" and node.attributes["exact"] for node in group.members)
    return {} if exact or not _heavy(group) else {"fast": True}
