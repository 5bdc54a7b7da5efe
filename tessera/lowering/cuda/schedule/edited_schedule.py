"""Check a schedule that was edited by hand: report what emission takes for granted, at the operation."""

from collections.abc import Iterator

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import BadTileIR
from tessera.core.mlir import AnyOp
from tessera.core.targets import Architecture
from tessera.core.tile.location import spans
from tessera.core.tile.schedule_attributes import (
    DEFERRED,
    IN_FLIGHT,
    ISSUED,
    LAYOUT,
    MMA,
    OVERLAPS,
    PIPELINE,
    WGMMA,
    is_marked,
    marked,
    number_of,
)
from tessera.core.tile.schedule_check import Problem, schedule_problems
from tessera.lowering.cuda.schedule.mma_selection import fills_instruction, is_padded, product_kind
from tessera.lowering.cuda.schedule.multibuffer import accumulates, is_vector, source_load
from tessera.lowering.cuda.schedule.view import ScheduleView


def check_schedule(function: AnyOp, chip: Architecture) -> None:
    """Raise BadTileIR at the first operation whose attributes are not legal, or contradict others."""
    view = ScheduleView(function)
    for checks in (schedule_problems(function, view.operations), _problems(view, chip)):
        for op, message, hint in checks:
            raise BadTileIR(message, next(iter(spans(op.location)), NOWHERE), hint)


def _problems(view: ScheduleView, chip: Architecture) -> Iterator[Problem]:
    """Yield what contradicts something else; each attribute by itself is legal."""
    yield from _product_problems(view, chip)
    yield from _pipeline_problems(view)
    yield from _overlap_problems(view)
    yield from _layout_problems(view)


def _product_problems(view: ScheduleView, chip: Architecture) -> Iterator[Problem]:
    for op, kind in view.products.items():
        groups = product_kind(op, chip, lambda _: True, view.schedule.num_warps) == WGMMA
        if kind == WGMMA and not groups:
            yield op, f"{chip.name} has no wgmma for this product with {view.schedule.num_warps} warps", f'"{MMA}"'
        if kind == MMA and (is_padded(op) or not fills_instruction(op)):
            yield op, "this product does not fill an instruction of a single warp", '"fma"'


def _pipeline_problems(view: ScheduleView) -> Iterator[Problem]:
    loads = [load.operation for load in marked(view.operations, PIPELINE)]
    numbers = sorted({number_of(load, PIPELINE) for load in loads})
    for load in loads:
        number = number_of(load, PIPELINE)
        mine = [other for other in loads if number_of(other, PIPELINE) == number]
        if number not in range(len(numbers)):
            yield (
                load,
                f"there is no pipeline {number}: they are numbered from 0 to {len(numbers) - 1}",
                "another number",
            )
        elif all(map(is_vector, mine)) or any(other.operation.block != mine[0].operation.block for other in mine):
            yield (
                load,
                f"the loads of pipeline {number} are not those of matrices in one block",
                "a pipeline of its own",
            )
    if view.schedule.producer_warp != bool(loads):
        says = "is none" if loads else "is one"
        yield view.function, f"there {says} `producer_warp`, against what loads say", "edit both together"
    elif view.schedule.persistent and not view.schedule.producer_warp:
        yield view.function, "`persistent` takes a `producer_warp`", "leave `persistent` out"


def _overlap_problems(view: ScheduleView) -> Iterator[Problem]:
    hint = "leave the attribute out"
    for dot in marked(view.dots, IN_FLIGHT):
        operands = [source_load(operand) for operand in list(dot.operands)[:2]]
        ringed = [number_of(load, PIPELINE) for load in operands if load is not None and is_marked(load, PIPELINE)]
        if not accumulates(dot) or len(ringed) != len(operands) or len(set(ringed)) != 1:
            yield dot, "a product runs on where its sum is its own next addend, and one pipeline has its operands", hint
            return
    found = {overlap.second for overlap in view.overlaps.values()}
    for dot in marked(view.dots, OVERLAPS):
        if dot not in found:
            yield dot, "no other product of this loop can run beside this one", hint
    for store in marked(view.operations, DEFERRED):
        if len(view.rings) != 1 or view.rings[0].running is None:
            yield store, "a store that is delayed takes a product that runs on, and no other pipeline", hint
    for dot in (dot.operation for dot in marked(view.dots, ISSUED)):
        if dot.operation.block.owner.operation.name != "scf.for" or len(dot.operands) != 2:
            yield dot, "this product cannot be issued an iteration early", hint


def _layout_problems(view: ScheduleView) -> Iterator[Problem]:
    for op in marked(view.operations, LAYOUT):
        try:
            found = view.layouts_at(op)
        except ValueError as error:
            yield op, str(error), "the text of the layout that the stage was printed with"
            return
        for layout in found.values():
            if len(layout.warps) != view.bits:
                said = f"this layout is for {1 << len(layout.warps)} warps, and there are {view.schedule.num_warps}"
                yield op, said, "edit `num_warps` before layouts are assigned: begin with `cuda-rasterize`"
            elif not layout.covers():
                yield op, "not every element of the tile has a place in this layout", "other bases"
