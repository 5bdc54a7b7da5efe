"""The GPU function of a tile kernel: roles, the loop over groups, and the order in which groups are done."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.frame import Frame
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.copy_ring import Copies
from tessera.lowering.target.cuda.tiles.engine import Engine
from tessera.lowering.target.cuda.tiles.overlap import begin_turns
from tessera.lowering.target.cuda.tiles.plan import Plan
from tessera.lowering.target.cuda.tiles.ring import Round
from tessera.lowering.target.cuda.tiles.room import NeedsRoomError, Room
from tessera.lowering.target.cuda.tiles.stages import Depth, Stages
from tessera.lowering.target.cuda.tiles.team import ROLLED, WARP, Team

COPYING_LANES: Final = 128
"""A whole warp group, as registers are handed out to those; one lane of it works."""
_FEW_REGISTERS: Final = 40
_MANY_REGISTERS: Final = 232
_BAND: Final = 8


def lanes_of(plan: Plan) -> int:
    """Lanes of a block."""
    return (WARP << plan.bits) + (COPYING_LANES if plan.specialised else 0)


def lower_tiles(frame: Frame, plan: Plan, function: Any, depth: Depth) -> None:
    """Emit the code of the `func.func` into `frame`, with rings of `depth`.

    Raises:
        NotOnCuda: the kernel needs something a GPU does not have.
        NeedsRoomError: shared memory is full; try again with fewer stages.
    """
    build, room = frame.build, Room(frame)
    team = Team(build, frame.tid, plan.bits, barrier=1 if plan.specialised else 0)
    stages = Stages(frame, plan, room, depth, team)
    generic = "wgmma" not in plan.products.values()
    copied = Copies(build, plan.copies, room, depth.inner, frame.chip.shared_bytes, generic=generic)
    if not plan.specialised:
        engine = Engine(frame, plan, stages, room, copied, team)
        engine.run(function, ordered(frame, plan, frame.group) if plan.products else frame.group)
        build.create("llvm.return")
        return
    with build.when(build.compare("eq", frame.tid, 0)):
        stages.initialise()
    build.create("nvvm.barrier", attributes={"operandSegmentSizes": "array<i32: 0, 0>", "aligned": "true"})
    many = team.lanes > COPYING_LANES
    copying = build.compare("uge", frame.tid, team.lanes)
    op = build.create("scf.if", [copying], (), regions=2)
    with build.at(op.regions[0].blocks.append()):
        if many:
            assembly.set_registers(build, _FEW_REGISTERS, more=False)
        with build.when(build.compare("eq", frame.tid, team.lanes)):
            _groups(frame, plan, stages, Engine(frame, plan, stages, room, copied, None), function)
        build.create("scf.yield")
    with build.at(op.regions[1].blocks.append()):
        if many:
            assembly.set_registers(build, _MANY_REGISTERS, more=True)
        if plan.overlaps:
            begin_turns(build, team)
        _groups(frame, plan, stages, Engine(frame, plan, stages, room, copied, team), function)
        with build.when(team.first()):
            assembly.bulk_wait(build, 0)
        build.create("scf.yield")
    build.create("llvm.return")


def _groups(frame: Frame, plan: Plan, stages: Stages, engine: Engine, function: Any) -> None:
    """One group after the other, as many as there are blocks apart."""
    build = frame.build
    rings = stages.start()

    def one(number: Any, values: list[Any]) -> Sequence[Any]:
        engine.rounds = {ring: Round(values[2 * n], values[2 * n + 1]) for n, ring in enumerate(rings)}
        engine.run(function, ordered(frame, plan, number))
        return [value for ring in rings for value in engine.rounds[ring].values()]

    start = [value for now in rings.values() for value in now.values()]
    build.loop(frame.block, build.index(frame.groups()), frame.blocks(), start, one, ROLLED)


def ordered(frame: Frame, plan: Plan, number: Any) -> Any:
    """The group that is done as number `number`.

    Groups of unequal work: the large ones first, so that small ones fill the gaps at the end.  Groups along rows and
    columns: in bands of 8 rows, column after column, so that blocks that run at the same time share rows of one factor
    and columns of the other, which stay in L2.
    """
    build, ranges = frame.build, frame.rule.ranges
    if plan.uneven and ranges:
        return _large_first(build, number, frame.groups(), _count(build, frame, *ranges[-1]), last=plan.uneven > 0)
    if len(ranges) != 2 or any(step == 1 for _, step in ranges):  # noqa: PLR2004 - no rows and columns
        return number
    rows, columns = (_count(build, frame, extent, step) for extent, step in ranges)
    whole = build.mul(columns, _BAND)
    band = build.divide(number, whole)
    first = build.mul(band, _BAND)
    height = build.minimum(build.sub(rows, first), _BAND)
    inside = build.remainder(number, whole)
    row = build.add(first, build.remainder(inside, height))
    return build.add(build.mul(row, columns), build.divide(inside, height))


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


Attempt = Callable[[Depth], Any]


def with_depth(most: int, attempt: Attempt) -> Any:
    """Generate with as many stages as there is room for; two for what is filled once a group rather than a third."""
    choices = [Depth(inner, 2) for inner in range(most, 1, -1)] + [Depth(2, 1), Depth(1, 1)]
    for depth in choices:
        try:
            return attempt(depth)
        except NeedsRoomError:
            continue
    return attempt(Depth(1, 1))
