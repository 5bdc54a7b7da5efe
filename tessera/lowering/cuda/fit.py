"""Fit a kernel to its GPU: try schedules in one loop until one fits, and record every attempt.

The shared memory of pipelines is known before any code is emitted, the scratch memory in which lanes exchange elements
after the code is emitted, and what the assembler makes of the code after it has run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from tessera.core.artifact import Remark
from tessera.core.errors.catalog import BadKernelOption, BadTileIR, CompilerCrash
from tessera.core.events import Attempted, publish
from tessera.core.listing import Listing
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Attribute, Program
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.core.targets import Target
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.schedule_attributes import set_schedule
from tessera.lowering.base.cuda_toolkit import Usage
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.cuda.kernel.kernel_emission import LoweredKernel, emit_in_memory, emit_in_registers
from tessera.lowering.cuda.pipeline.shared_plan import planned_bytes
from tessera.lowering.cuda.remarks.tiles_in_memory import large_tiles
from tessera.lowering.cuda.schedule.context import Refusal, unscheduled
from tessera.lowering.cuda.schedule.fp8_mma import byte_products
from tessera.lowering.cuda.schedule.passes import schedule_tiles
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.analyses import analyse
from tessera.lowering.tile.pack_floats import widen_operands
from tessera.lowering.tile.round_operands import round_dot_operands

FIT: Final = "cuda-fit"
"""The stage of the Tile IR whose schedule says how many buffers pipelines have."""
ONE_BY_ONE: Final = "products are waited for one by one: the assembler cannot follow them where they overlap"
"""The note of a kernel whose MMAs were not overlapped with other work, as they would have been otherwise."""
_MOST_STAGES: Final = 7
_FEW_BLOCKS: Final = 2
"""Column blocks that are stored at once where shared memory is short."""


@dataclass
class Attempts:
    """Collect the attempts at one kernel, in order."""

    program: Program
    target: Target
    made: list[Attempted] = field(default_factory=list[Attempted])

    def add(self, choices: Mapping[str, Attribute], reason: str = "") -> None:
        """Record an attempt and publish it."""
        event = Attempted(self.program.name, str(self.target), len(self.made), dict(choices), reason)
        self.made.append(event)
        publish(event)


class Observer(Protocol):
    """Record the IR after each pass of one schedule."""

    def begin(self) -> None:
        """Forget the previous schedule, as another one is tried."""
        ...

    def __call__(self, name: str, seconds: float, /) -> None:
        """Record the IR after pass `name`."""
        ...


@dataclass(frozen=True, slots=True)
class Code:
    """Hold a cubin, or PTX if there is no assembler.

    serialised: the assembler's message if it serializes all matrix instructions; else ""
    """

    binary: bytes
    usage: Usage
    listings: Sequence[Listing]
    notes: tuple[str, ...] = ()
    serialised: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Describe the kernel to fit: its Tile IR, the program it comes from, and the GPU.

    stage: the pass after which the IR was read from a text; None if all passes are still to run
    """

    module: ir.Module
    function: AnyOp
    program: Program
    target: Target
    stage: str | None = None

    def replan(self, reason: str) -> None:
        """Forget the schedule, so that another one is made.

        Raises:
            BadTileIR: the schedule was read, so it is the user's; with the `reason`.
        """
        if self.stage is not None:
            raise BadTileIR(reason, hint="edit what the reason names, or begin with an earlier stage")
        unscheduled(self.function)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Hold the attempt that fits.

    refusal: why the tiles of the kernel are not in registers; None if they are, or if it is a kernel of lanes
    notes: what the user should know of how it was fitted
    """

    lowered: LoweredKernel
    code: Code
    attempts: tuple[Attempted, ...]
    refusal: Refusal | None
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Emitted:
    """Hold an emission, the choices that led to it, and why its tiles are not in registers."""

    lowered: LoweredKernel
    choices: Mapping[str, Attribute]
    refusal: Refusal | None = None
    remarks: tuple[Remark, ...] = ()


def fit(case: Case, attempts: Attempts, assemble: Callable[[LoweredKernel], Code], observe: Observer | None) -> Fitted:
    """Schedule, emit and assemble a kernel until it fits the GPU.

    Raises:
        NotOnCuda: the kernel needs something that a GPU does not have.
        BadKernelOption: it fits only without something that an option asks for.
        CompilerCrash: the assembler serializes the MMAs even though each is waited for.
    """
    program, notes = case.program, ()
    while True:
        if observe is not None:
            observe.begin()
        emitted = _emit(replace(case, program=program), attempts, observe)
        if emitted.lowered.stalls:
            reason = "warp groups that take turns at products exchange elements of a tile"
            attempts.add(emitted.choices, reason)
            case.replan(f"{reason}: `pingpong` has to be false")
            program = _without_pingpong(program)
            continue
        code = assemble(emitted.lowered)
        if code.serialised:
            reason = f"the assembler has all products wait for each other: {code.serialised}"
            attempts.add(emitted.choices, reason)
            case.replan(reason)
            if program.options.get("overlap") is False:
                raise CompilerCrash(f"ptxas: {code.serialised}")
            program, notes = replace(program, options={**case.program.options, "overlap": False}), (ONE_BY_ONE,)
            continue
        attempts.add(emitted.choices)
        return Fitted(emitted.lowered, code, tuple(attempts.made), emitted.refusal, emitted.remarks, notes)


def _emit(case: Case, attempts: Attempts, observe: Observer | None) -> _Emitted:
    """Emit a kernel with as many pipeline stages as fit shared memory, or with its tiles in shared memory."""
    chip = case.target.kind.architecture(case.target.arch)
    plan = schedule_tiles(case.module, case.program, chip, observe, behind=case.stage)
    if not isinstance(plan, ScheduleView):
        return _in_memory(case, attempts, plan)
    start = time.perf_counter()
    for schedule in depths(plan, case.program):
        choices = _choices(case.program, schedule)
        needed = planned_bytes(plan, schedule, chip.shared_bytes)
        if needed > chip.shared_bytes:
            attempts.add(choices, f"pipelines take {needed:,} of {chip.shared_bytes:,} bytes of shared memory")
            continue
        set_schedule(case.function, schedule)
        lowered = emit_in_registers(case.program, chip, ScheduleView(case.function))
        if lowered.excess and not lowered.stalls:
            attempts.add(choices, f"{lowered.excess:,} bytes of shared memory are missing to exchange elements")
            continue
        if observe is not None:
            observe(FIT, time.perf_counter() - start)
        return _Emitted(lowered, choices)
    if case.stage is not None:
        raise BadTileIR(attempts.made[-1].reason, hint="fewer `stages` or `epilogue_stages` in `tessera.schedule`")
    full = f"its factors do not fit the {chip.shared_bytes:,} bytes of shared memory"
    return _in_memory(case, attempts, Refusal(full, "smaller blocks"))


def _in_memory(case: Case, attempts: Attempts, refusal: Refusal | None) -> _Emitted:
    """Emit a kernel with its tiles in shared memory, or in global memory if they do not fit."""
    chip, function = case.target.kind.architecture(case.target.arch), case.function
    unscheduled(function)
    _without_tensor_cores(function)
    large = large_tiles(walk(function.regions[0].blocks[0]), refusal, chip)  # lowering takes the operations apart
    facts = analyse(function)
    choices: dict[str, Attribute] = {"tiles": "shared memory"}
    lowered = emit_in_memory(function, case.program, chip, facts, spill=False)
    if lowered.excess:
        attempts.add(choices, f"tiles take {lowered.excess:,} bytes more than there are of shared memory")
        choices = {"tiles": "global memory"}
        lowered = emit_in_memory(function, case.program, chip, facts, spill=True)
    return _Emitted(lowered, choices, refusal, large)


def depths(plan: ScheduleView, program: Program) -> Iterator[TileSchedule]:
    """Yield the schedule with the most pipeline stages first, then with fewer and fewer.

    Three stages hide the latency, or four if an MMA stays in flight and so keeps its buffers an iteration longer.
    Beyond that, shared memory is better spent on storing the whole epilogue tile at once, and on two stages for what
    is loaded once per group.
    """
    schedule = plan.schedule
    if schedule.stages or not (plan.rings or plan.copies):
        yield schedule
        return
    wanted = program.options.get("stages")
    most = wanted if isinstance(wanted, int) else _MOST_STAGES
    stored, few = schedule.epilogue_stages, min(schedule.epilogue_stages, _FEW_BLOCKS)
    enough = 4 if any(ring.running is not None for ring in plan.rings) else 3
    choices = [
        *((inner, 2, blocks) for blocks in (stored, few) for inner in range(most, enough - 1, -1)),
        *((inner, 2, stored) for inner in range(min(most, enough - 1), 2, -1)),
        *((inner, 2, few) for inner in range(min(most, enough - 1), 1, -1)),
        *((inner, 1, few) for inner in range(min(most, 3), 0, -1)),
        (1, 1, 1),
    ]
    if not plan.rings:
        choices = [(inner, 0, stored) for inner, _, _ in choices]
    for inner, outer, blocks in dict.fromkeys(choices):
        yield replace(schedule, stages=inner, group_stages=outer, epilogue_stages=blocks)


def _choices(program: Program, schedule: TileSchedule) -> dict[str, Attribute]:
    """Return the choices that distinguish an attempt from others at the same kernel."""
    names = ("stages", "group_stages", "epilogue_stages", "pingpong")
    return {**{name: getattr(schedule, name) for name in names}, "overlap": bool(program.options.get("overlap", True))}


def _without_pingpong(program: Program) -> Program:
    """Return the program without ping-pong scheduling of its warp groups.

    Raises:
        BadKernelOption: an option asks for it.
    """
    if program.options.get("pingpong"):
        raise BadKernelOption(
            "the warp groups of this kernel cannot take turns: in its loop, lanes of both exchange elements of a tile",
            program.span, "leave out `pingpong`",
        )  # fmt: skip
    return replace(program, options={**program.options, "pingpong": 0})


def _without_tensor_cores(function: AnyOp) -> None:
    """Widen 8-bit operands and round those of tf32."""
    operations = list(walk(function.regions[0].blocks[0]))
    bytes_left = byte_products(operations)
    for dot in bytes_left:
        widen_operands(dot)
    rounded = [op for op in walk(function.regions[0].blocks[0]) if COMPUTE in op.attributes]
    for dot in rounded:
        round_dot_operands(dot)
