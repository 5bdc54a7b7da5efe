"""Emit the GPU function of a tile kernel: roles (warp specialization) and the persistent loop over groups."""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.resources import Buffers
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.kernel.emitter import RoleEmitter
from tessera.lowering.cuda.mma.overlapped_mma import begin_pingpong
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import PipelineState
from tessera.lowering.cuda.pipeline.producer_consumer import Pipelines
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import ROLLED, WARP, WarpSet
from tessera.lowering.cuda.tile_scheduler.broadcast import WorkTileBroadcast
from tessera.lowering.cuda.tile_scheduler.rasterization import group_count, is_banded, numbered, ordered, place

COPYING_LANES: Final = 128
"""A whole warp group, as registers are allocated to warp groups; one lane of it works."""
_REGISTERS: Final = (40, 232)
"""Of a producer lane, and of a consumer lane: three warp groups begin with 168 each, and redistribute them."""
_MOST_REGISTERS: Final = (24, 240)
"""Likewise where accumulators of several MMAs are kept, and the producer needs few registers."""
_LEAST_REGISTERS: Final = (24, 112)
"""Likewise with four consumer warp groups: five begin with 96 each."""


def lanes_of(plan: ScheduleView) -> int:
    """Return the lanes of a block."""
    return WARP * plan.schedule.num_warps + (COPYING_LANES if plan.specialised else 0)


def lower_tiles(frame: GpuFunction, plan: ScheduleView) -> tuple[tuple[Buffers, ...], bool]:
    """Emit the code of a kernel into `frame`; return its pipelines' buffers, and whether its warp groups can pingpong.

    Raises NotOnCuda for what the kernel needs and a GPU does not have.
    """
    build, scratch, function = frame.build, SharedScratch(frame), plan.function
    warp_set = WarpSet(build, frame.tid, plan.bits, barrier=1 if plan.specialised else 0)
    stages = Pipelines(frame, plan, scratch, warp_set)
    broadcast = (
        WorkTileBroadcast(frame, scratch, warp_set, stages.count) if plan.schedule.load_balance and plan.rings else None
    )
    if broadcast is not None:
        stages.add(broadcast.ring)
    generic = "wgmma" not in plan.products.values()
    copied = CpAsyncCopies(build, plan.copies, scratch, plan.schedule.stages, frame.chip.shared_bytes, generic=generic)
    if not plan.specialised:
        if frame.rule.early:
            sm90.wait_for_kernels_before(build)
            sm90.let_next_kernel_begin(build)
        engine = RoleEmitter(frame, plan, stages, scratch, copied, warp_set)
        _run(frame, plan, engine, function, frame.group, broadcast)
        build.create("llvm.return")
        return copied.buffers, True
    fetching = build.create("scf.if", [build.compare("eq", frame.tid, warp_set.lanes)], (), regions=2)
    early = fetching.regions[0].blocks.append()
    with build.when(build.compare("eq", frame.tid, 0)):
        stages.initialise()
    if plan.schedule.cluster > 1:
        sm90.cluster_wait(build)
    else:
        build.create("nvvm.barrier", attributes={"operandSegmentSizes": "array<i32: 0, 0>", "aligned": "true"})
    # The code so far needs nothing that previous kernels write; all that follows may.
    sm90.wait_for_kernels_before(build)
    sm90.let_next_kernel_begin(build)
    _roles(frame, plan, stages, scratch, copied, warp_set, function, broadcast)
    with build.at(early):
        stages.prefetch_maps()
        build.create("scf.yield")
    if plan.schedule.cluster > 1:  # a block's shared memory must outlive the copies that its neighbour sends there
        sm90.cluster_wait(build)
    build.create("llvm.return")
    return (*stages.buffers, *copied.buffers), not warp_set.stalls


def _roles(
    frame: GpuFunction,
    plan: ScheduleView,
    stages: Pipelines,
    scratch: SharedScratch,
    copied: CpAsyncCopies,
    warp_set: WarpSet,
    function: AnyOp,
    broadcast: WorkTileBroadcast | None,
) -> None:
    """Emit the code of the producer warp and that of the consumer warps."""
    build = frame.build
    many = warp_set.lanes > COPYING_LANES
    few, most = _MOST_REGISTERS if stages.running else _REGISTERS
    if warp_set.lanes == 4 * COPYING_LANES:
        few, most = _LEAST_REGISTERS
    copying = build.compare("uge", frame.tid, warp_set.lanes)
    op = build.create("scf.if", [copying], (), regions=2)
    with build.at(op.regions[0].blocks.append()):
        if many:
            sm90.set_registers(build, few, more=False)
        with build.when(build.compare("eq", frame.tid, warp_set.lanes)):
            _groups(frame, plan, stages, RoleEmitter(frame, plan, stages, scratch, copied, None), function, broadcast)
        build.create("scf.yield")
    with build.at(op.regions[1].blocks.append()):
        if many:
            sm90.set_registers(build, most, more=True)
        if plan.schedule.pingpong:
            begin_pingpong(build, warp_set)
        _groups(frame, plan, stages, RoleEmitter(frame, plan, stages, scratch, copied, warp_set), function, broadcast)
        sm90.bulk_wait_read(build, 0)  # by all lanes: it is not known here which of them started stores
        build.create("scf.yield")


def _groups(
    frame: GpuFunction,
    plan: ScheduleView,
    stages: Pipelines,
    engine: RoleEmitter,
    function: AnyOp,
    broadcast: WorkTileBroadcast | None,
) -> None:
    """Emit the persistent loop: each block runs its groups one after the other."""
    build = frame.build
    rings = stages.start()

    def one(number: Index, values: list[ir.Value]) -> Sequence[ir.Value]:
        engine.rounds = {ring: PipelineState(values[2 * n], values[2 * n + 1]) for n, ring in enumerate(rings)}
        if deferred is not None:
            following = build.add(number, frame.blocks())
            deferred.begin_group(values[2 * len(rings) :], build.compare("sge", following, count))
        _run(frame, plan, engine, function, number, broadcast)
        ends = [value for ring in rings for value in engine.rounds[ring].values()]
        return ends if deferred is None else ends + deferred.end_group()

    count = group_count(frame, plan.schedule)
    deferred = engine.deferred
    start = [value for now in rings.values() for value in now.values()]
    if deferred is not None:
        start += deferred.begin()
    build.loop(frame.block, count, frame.blocks(), start, one, ROLLED)


def _run(
    frame: GpuFunction,
    plan: ScheduleView,
    engine: RoleEmitter,
    function: AnyOp,
    number: Index,
    broadcast: WorkTileBroadcast | None,
) -> None:
    """Emit the group that comes at place `number` of the order."""
    if not plan.products:
        engine.run(function, number)
    elif is_banded(frame, plan.schedule):
        where = place(frame, plan.schedule, number)
        engine.run(function, numbered(frame, where), where)
    else:
        engine.run(function, _load_balanced(frame, plan, engine, number, broadcast))


def _load_balanced(
    frame: GpuFunction, plan: ScheduleView, engine: RoleEmitter, number: Index, broadcast: WorkTileBroadcast | None
) -> Index:
    """Return the group at a place of a launch that is not rasterized.

    Where groups differ in work, the producer warp computes it and broadcasts it to the consumer warps.
    """
    if broadcast is None:
        return ordered(frame, plan.schedule, number)
    now = engine.rounds[broadcast.number]
    engine.rounds[broadcast.number] = broadcast.ring.following(now)
    if not engine.copies:
        return broadcast.fetch(now, engine.warp_set)
    group = ordered(frame, plan.schedule, number)
    broadcast.publish(now, group)
    return group
