"""The GPU function of a tile kernel: roles, the loop over groups, and the order in which groups are done."""

from collections.abc import Sequence
from typing import Any, Final

from tessera.core.resources import Buffers
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.kernel.emitter import RoleEmitter
from tessera.lowering.cuda.mma.overlapped_mma import begin_turns
from tessera.lowering.cuda.pipeline.cp_async_pipeline import CpAsyncCopies
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import PipelineState
from tessera.lowering.cuda.pipeline.producer_consumer import Pipelines
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import ROLLED, WARP, WarpSet
from tessera.lowering.cuda.tile_scheduler.broadcast import WorkTileBroadcast
from tessera.lowering.cuda.tile_scheduler.rasterization import group_count, is_banded, numbered, ordered, place

COPYING_LANES: Final = 128
"""A whole warp group, as registers are handed out to those; one lane of it works."""
_REGISTERS: Final = (40, 232)
"""Of a copying lane, and of one of the team's: three warp groups begin with 168 each, and share what they have."""
_MOST_REGISTERS: Final = (24, 240)
"""The same where the sums of several products are kept, and the copying lane has little to know."""
_LEAST_REGISTERS: Final = (24, 112)
"""The same for a team of four warp groups: five begin with 96 each."""


def lanes_of(plan: ScheduleView) -> int:
    """Lanes of a block."""
    return WARP * plan.schedule.num_warps + (COPYING_LANES if plan.specialised else 0)


def lower_tiles(frame: GpuFunction, plan: ScheduleView) -> tuple[tuple[Buffers, ...], bool]:
    """Emit the code of a kernel into `frame`; gives the buffers that were made, and whether warp groups can take turns.

    Raises NotOnCuda for what the kernel needs and a GPU does not have.
    """
    build, room, function = frame.build, SharedScratch(frame), plan.function
    team = WarpSet(build, frame.tid, plan.bits, barrier=1 if plan.specialised else 0)
    stages = Pipelines(frame, plan, room, team)
    dealing = WorkTileBroadcast(frame, room, team, stages.count) if plan.schedule.load_balance and plan.rings else None
    if dealing is not None:
        stages.add(dealing.ring)
    generic = "wgmma" not in plan.products.values()
    copied = CpAsyncCopies(build, plan.copies, room, plan.schedule.stages, frame.chip.shared_bytes, generic=generic)
    if not plan.specialised:
        if frame.rule.early:
            sm90.wait_for_kernels_before(build)
            sm90.let_next_kernel_begin(build)
        engine = RoleEmitter(frame, plan, stages, room, copied, team)
        _run(frame, plan, engine, function, frame.group, dealing)
        build.create("llvm.return")
        return copied.buffers, True
    fetching = build.create("scf.if", [build.compare("eq", frame.tid, team.lanes)], (), regions=2)
    early = fetching.regions[0].blocks.append()
    with build.when(build.compare("eq", frame.tid, 0)):
        stages.initialise()
    if plan.schedule.cluster > 1:
        sm90.cluster_wait(build)
    else:
        build.create("nvvm.barrier", attributes={"operandSegmentSizes": "array<i32: 0, 0>", "aligned": "true"})
    # What came so far needs nothing that kernels in front of this one write; all that follows may.
    sm90.wait_for_kernels_before(build)
    sm90.let_next_kernel_begin(build)
    _roles(frame, plan, stages, room, copied, team, function, dealing)
    with build.at(early):
        stages.prefetch_maps()
        build.create("scf.yield")
    if plan.schedule.cluster > 1:  # a block's shared memory must outlive what its neighbour sends there
        sm90.cluster_wait(build)
    build.create("llvm.return")
    return (*stages.buffers, *copied.buffers), not team.stalls


def _roles(
    frame: GpuFunction,
    plan: ScheduleView,
    stages: Pipelines,
    room: SharedScratch,
    copied: CpAsyncCopies,
    team: WarpSet,
    function: Any,
    dealing: WorkTileBroadcast | None,
) -> None:
    """The copying warp's code, and the team's."""
    build = frame.build
    many = team.lanes > COPYING_LANES
    few, most = _MOST_REGISTERS if stages.running else _REGISTERS
    if team.lanes == 4 * COPYING_LANES:
        few, most = _LEAST_REGISTERS
    copying = build.compare("uge", frame.tid, team.lanes)
    op = build.create("scf.if", [copying], (), regions=2)
    with build.at(op.regions[0].blocks.append()):
        if many:
            sm90.set_registers(build, few, more=False)
        with build.when(build.compare("eq", frame.tid, team.lanes)):
            _groups(frame, plan, stages, RoleEmitter(frame, plan, stages, room, copied, None), function, dealing)
        build.create("scf.yield")
    with build.at(op.regions[1].blocks.append()):
        if many:
            sm90.set_registers(build, most, more=True)
        if plan.schedule.pingpong:
            begin_turns(build, team)
        _groups(frame, plan, stages, RoleEmitter(frame, plan, stages, room, copied, team), function, dealing)
        sm90.bulk_wait_read(build, 0)  # by all: which lanes started stores is theirs to know
        build.create("scf.yield")


def _groups(
    frame: GpuFunction,
    plan: ScheduleView,
    stages: Pipelines,
    engine: RoleEmitter,
    function: Any,
    dealing: WorkTileBroadcast | None,
) -> None:
    """One group after the other, as many as there are blocks apart."""
    build = frame.build
    rings = stages.start()

    def one(number: Any, values: list[Any]) -> Sequence[Any]:
        engine.rounds = {ring: PipelineState(values[2 * n], values[2 * n + 1]) for n, ring in enumerate(rings)}
        if later is not None:
            following = build.add(number, frame.blocks())
            later.begin_group(values[2 * len(rings) :], build.compare("sge", following, count))
        _run(frame, plan, engine, function, number, dealing)
        ends = [value for ring in rings for value in engine.rounds[ring].values()]
        return ends if later is None else ends + later.end_group()

    count = group_count(frame, plan.schedule)
    later = engine.later
    start = [value for now in rings.values() for value in now.values()]
    if later is not None:
        start += later.begin()
    build.loop(frame.block, count, frame.blocks(), start, one, ROLLED)


def _run(
    frame: GpuFunction,
    plan: ScheduleView,
    engine: RoleEmitter,
    function: Any,
    number: Any,
    dealing: WorkTileBroadcast | None,
) -> None:
    """The group that is done as number `number`."""
    if not plan.products:
        engine.run(function, number)
    elif is_banded(frame, plan.schedule):
        where = place(frame, plan.schedule, number)
        engine.run(function, numbered(frame, where), where)
    else:
        engine.run(function, _uneven(frame, plan, engine, number, dealing))


def _uneven(
    frame: GpuFunction, plan: ScheduleView, engine: RoleEmitter, number: Any, dealing: WorkTileBroadcast | None
) -> Any:
    """The same for groups without bands; where they are uneven, the copying warp works it out, and tells the team."""
    if dealing is None:
        return ordered(frame, plan.schedule, number)
    now = engine.rounds[dealing.number]
    engine.rounds[dealing.number] = dealing.ring.following(now)
    if not engine.copies:
        return dealing.fetch(now, engine.team)
    group = ordered(frame, plan.schedule, number)
    dealing.publish(now, group)
    return group
