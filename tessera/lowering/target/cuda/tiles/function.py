"""The GPU function of a tile kernel: roles, the loop over groups, and the order in which groups are done."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.frame import Frame
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.engine import Engine
from tessera.lowering.target.cuda.tiles.overlap import begin_turns
from tessera.lowering.target.cuda.tiles.plan import Plan
from tessera.lowering.target.cuda.tiles.ring import Round
from tessera.lowering.target.cuda.tiles.room import NeedsRoomError, Room
from tessera.lowering.target.cuda.tiles.stages import Stages
from tessera.lowering.target.cuda.tiles.team import ROLLED, WARP, Team

COPYING_LANES: Final = 128
"""A whole warp group, as registers are handed out to those; one lane of it works."""
_FEW_REGISTERS: Final = 40
_MANY_REGISTERS: Final = 232
_BAND: Final = 8


def lanes_of(plan: Plan) -> int:
    """Lanes of a block."""
    return (WARP << plan.bits) + (COPYING_LANES if plan.specialised else 0)


def lower_tiles(frame: Frame, plan: Plan, function: Any, depth: int) -> None:
    """Emit the code of the `func.func` into `frame`, with rings of `depth` stages.

    Raises:
        NotOnCuda: the kernel needs something a GPU does not have.
        NeedsRoomError: shared memory is full; try again with fewer stages.
    """
    build, room = frame.build, Room(frame)
    team = Team(build, frame.tid, plan.bits, barrier=1 if plan.specialised else 0)
    stages = Stages(frame, plan, room, depth, team)
    if not plan.specialised:
        engine = Engine(frame, plan, stages, room, team)
        engine.run(function, frame.group)
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
            _groups(frame, plan, stages, Engine(frame, plan, stages, room, None), function)
        build.create("scf.yield")
    with build.at(op.regions[1].blocks.append()):
        if many:
            assembly.set_registers(build, _MANY_REGISTERS, more=True)
        if plan.overlaps:
            begin_turns(build, team)
        _groups(frame, plan, stages, Engine(frame, plan, stages, room, team), function)
        with build.when(team.first()):
            assembly.bulk_wait(build, 0)
        build.create("scf.yield")
    build.create("llvm.return")


def _groups(frame: Frame, plan: Plan, stages: Stages, engine: Engine, function: Any) -> None:
    """One group after the other, as many as there are blocks apart."""
    build = frame.build
    del plan
    rings = stages.start()

    def one(number: Any, values: list[Any]) -> Sequence[Any]:
        engine.rounds = {ring: Round(values[2 * n], values[2 * n + 1]) for n, ring in enumerate(rings)}
        engine.run(function, banded(frame, number))
        return [value for ring in rings for value in engine.rounds[ring].values()]

    start = [value for now in rings.values() for value in now.values()]
    build.loop(frame.block, build.index(frame.groups()), frame.blocks(), start, one, ROLLED)


def banded(frame: Frame, number: Any) -> Any:
    """The group that is done as number `number`: bands of 8 rows of groups, column after column inside a band.

    Blocks that run at the same time then share rows of one factor and columns of the other, which stay in L2.
    """
    build = frame.build
    if len(frame.rule.ranges) != 2 or any(step == 1 for _, step in frame.rule.ranges):  # noqa: PLR2004 - no grid
        return number
    rows, columns = (_count(build, frame, extent, step) for extent, step in frame.rule.ranges)
    whole = build.mul(columns, _BAND)
    band = build.divide(number, whole)
    first = build.mul(band, _BAND)
    height = build.minimum(build.sub(rows, first), _BAND)
    inside = build.remainder(number, whole)
    row = build.add(first, build.remainder(inside, height))
    return build.add(build.mul(row, columns), build.divide(inside, height))


def _count(build: Build, frame: Frame, extent: int | str, step: int) -> Any:
    length = frame.symbols[extent] if isinstance(extent, str) else extent
    return build.divide(build.add(length, step - 1), step)


Attempt = Callable[[int], Any]


def with_depth(most: int, attempt: Attempt) -> Any:
    """Generate with as many stages as there is room for."""
    for depth in range(most, 1, -1):
        try:
            return attempt(depth)
        except NeedsRoomError:
            continue
    return attempt(1)
