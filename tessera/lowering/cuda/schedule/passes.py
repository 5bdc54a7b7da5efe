"""The passes that schedule a tile kernel, in order: each decides one thing, and writes attributes into the Tile IR.

The emission of code reads these attributes, by a `ScheduleView`, and nothing else.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.schedule_attributes import CARRIED, LAYOUT, SHARED, STREAMED, mark_only, set_layouts
from tessera.lowering.analysis.uniformity import walk
from tessera.lowering.base.launch_grid import ranges_of
from tessera.lowering.cuda.schedule.context import Refusal, ScheduleContext, SchedulePass, kernel_of, refusal_of
from tessera.lowering.cuda.schedule.edited_schedule import check_schedule
from tessera.lowering.cuda.schedule.layout_inference import infer, reduction_bits
from tessera.lowering.cuda.schedule.legality import eligible, first_unfit, has_lanes
from tessera.lowering.cuda.schedule.loads import CopyAhead, Realign
from tessera.lowering.cuda.schedule.mma import ChooseProducts, OverlapProducts, RunProducts
from tessera.lowering.cuda.schedule.mma_selection import MOST_WARP_BITS, multiplies_tf32, product_bits, sum_layouts
from tessera.lowering.cuda.schedule.rasterization import band_of, cluster_of, has_bands, unevenness
from tessera.lowering.cuda.schedule.register_pressure import require_registers
from tessera.lowering.cuda.schedule.stores import DelayStores, DivideStores
from tessera.lowering.cuda.schedule.view import ScheduleView, padded
from tessera.lowering.cuda.storage.streamed_reduction import find_streams
from tessera.lowering.cuda.storage.warps import WARP
from tessera.lowering.tile.round_operands import round_factors

_MOST_VALUES: Final = 256
_ROW_VALUES: Final = 128
_VALUES: Final = 32
_LANES_RESIDENT: Final = 512
"""Lanes of a multiprocessor with 128 registers each: the fastest of 40 to 255 for rows of 8192 on an H200."""


Observer = Callable[[str, float], None]
"""Called after each pass with its name, and the seconds it took."""


@dataclass(frozen=True, slots=True)
class ChooseTeam(SchedulePass):
    """Say how many warps compute a group's tiles together (option `num_warps`).

    before: `func.func @f(...)`
    after:  `func.func @f(...) warps 8`; with reductions, also how many blocks a multiprocessor should hold, which
            leaves 128 registers to a lane: fewer hide less of memory's latency, more leave too little for rows in
            registers
    """

    name: ClassVar[str] = "cuda-choose-team"

    def decide(self, kernel: ScheduleContext) -> None:
        """What the products ask for, or a few warps with much to do each: a reduction's cost a warp is fixed."""
        if not kernel.dots:
            for op in find_streams(kernel.operations, kernel.only_reads):
                mark_only(op, STREAMED)
        plan = ScheduleView(kernel.function)
        bits = self._bits(kernel, plan)
        lanes = WARP << bits
        kernel.set(num_warps=1 << bits)
        if any(op.name == "tessera.reduce" for op in kernel.operations) and not kernel.dots:
            kernel.set(min_blocks_per_sm=max(1, _LANES_RESIDENT // lanes))
        most, largest = _MOST_VALUES if kernel.dots else _ROW_VALUES, kernel.largest(plan)
        if largest > most * lanes:
            needed = f"the largest tile takes {largest // lanes} registers of each lane of {lanes // WARP} warps"
            kernel.refuse(f"{needed}, and {most} is the most", "more warps (the option `num_warps`) or smaller blocks")

    def _bits(self, kernel: ScheduleContext, plan: ScheduleView) -> int:
        wanted = kernel.option("num_warps", 0)
        if wanted:
            return wanted.bit_length() - 1
        if kernel.dots:
            return product_bits(plan.products, kernel.operations)
        warps = max(1, kernel.largest(plan) // (_VALUES * WARP))
        bits = min(MOST_WARP_BITS, (warps - 1).bit_length())
        vector = kernel.option("vector_width", 0)
        reduced = reduction_bits(kernel.operations, padded, kernel.access_bytes, plan.parts, vector)
        return bits if reduced is None else min(bits, reduced)


@dataclass(frozen=True, slots=True)
class OrderGroups(SchedulePass):
    """Say in which order groups are done, and which blocks share loads (options `raster_group`, `cluster`).

    after: the function says `grid persistent`: as many blocks as multiprocessors, each of which takes one group after
           the other; `band 16`: so many rows of groups are done side by side, column after column, before the next
           rows; `order large and small groups in pairs`, of a few heads at a time, where groups differ in work;
           `cluster 2`, and loads `shared by the cluster`
    """

    name: ClassVar[str] = "cuda-order-groups"

    def decide(self, kernel: ScheduleContext) -> None:
        """By the bounds of loops and the places of loads: what they have of the group's number."""
        plan = kernel.plan
        uneven = unevenness(plan.rings)
        cluster, shared = (1, set[Any]()) if uneven else cluster_of(kernel.function, kernel.program, plan)
        for load in shared:
            mark_only(load, SHARED)
        # Neighbours of a cluster are in one band.
        band = -(-kernel.option("raster_group", band_of(kernel.function)) // cluster) * cluster
        banded = bool(plan.products) and not uneven and has_bands(ranges_of(kernel.function))
        kernel.set(
            persistent=plan.specialised, load_balance=uneven, cluster=cluster, raster_group=band if banded else 1
        )


@dataclass(frozen=True, slots=True)
class AssignLayouts(SchedulePass):
    """Give each tile its place in the registers of lanes and warps (options `vector_width`, `warp_columns`).

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b layout registers [1:1, 0:8] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 0:32]`:
            the second bit of a register's number moves 8 along axis 0; see `core.layouts`
    `vector`: a lane has at most so many neighbouring elements of what is loaded, stored or reduced, where 16 bytes are
            the rule: with `vector_width=2`, `registers [1:1] lanes [1:2, 1:4, ...]`
    `warp_columns`: so many warps share the columns of a product, and the others its rows, where the rule is what reads
            least of the factors: with `warp_columns=2`, `warps [0:16, 1:32]`.  Warp groups have whole rows, and so
            have warps that reduce them: there, and where a warp would have less than an instruction, another value
            than those that the message names is a mistake (TSR-E005)
    """

    name: ClassVar[str] = "cuda-assign-layouts"

    def decide(self, kernel: ScheduleContext) -> None:
        """From the products, reductions, loads and stores outwards."""
        plan, beside = kernel.plan, kernel.option("warp_columns", 0)
        sums = sum_layouts(plan.products, kernel.operations, plan.bits, plan.is_staged, beside)
        vector = kernel.option("vector_width", 0)
        layouts = infer(kernel.operations, plan.bits, padded, kernel.access_bytes, sums, plan.parts, vector)
        for op in kernel.operations:
            results = [layouts.get(v) for v in op.results]
            set_layouts(op, LAYOUT, results)
            if op.name == "scf.for":
                carried = [layouts.get(v) for v in list(op.regions[0].blocks[0].arguments)[1:]]
                if carried != results:
                    set_layouts(op, CARRIED, carried)


SCHEDULE_PASSES: Final[tuple[type[SchedulePass], ...]] = (
    # What the tensor cores can do decides everything else.
    ChooseProducts,
    ChooseTeam,
    # Only loads that products read, so after these were chosen; the copy engine reads what is realigned.
    Realign,
    CopyAhead,
    # Products whose factors are copied ahead can run on while others are prepared.
    OverlapProducts,
    RunProducts,
    OrderGroups,
    # What is copied ahead needs no registers.
    AssignLayouts,
    # By the layouts.
    DivideStores,
    # Of stores by warp groups.
    DelayStores,
)


def schedule_tiles(
    module: Any, program: Program, chip: Architecture, observe: Observer | None = None, behind: str | None = None
) -> ScheduleView | Refusal | None:
    """Schedule the kernel of a module; None for kernels that say what single lanes do.

    behind: the pass behind which the module stands already, as somebody may have edited it; None: run all
    Raises NotOnCuda for sums that no lane has registers for.
    """
    function = kernel_of(module)
    operations = list(walk(function.regions[0].blocks[0]))
    if not eligible(operations, program):
        unfit = None if has_lanes(program) else first_unfit(operations)
        if unfit is None:
            return None
        return Refusal(f"`{_word(unfit)}` keeps the kernel's tiles in memory", "another kernel for that", unfit)
    for op in operations if behind is None else ():
        if COMPUTE in op.attributes and not multiplies_tf32(op):
            round_factors(op)
    names = [step.name for step in SCHEDULE_PASSES]
    done = 0 if behind is None else names.index(behind) + 1 if behind in names else len(names)
    if behind is not None:
        check_schedule(function, chip)
    for step in SCHEDULE_PASSES[done:]:
        start = time.perf_counter()
        step(program, chip).run(module)
        if observe is not None:
            observe(step.name, time.perf_counter() - start)
    refusal = refusal_of(function)
    if refusal is not None:
        return refusal
    plan = ScheduleView(function)
    require_registers(plan)
    return plan


def _word(op: Any) -> str:
    """What an operation is called, without its dialect."""
    return str(op.name).rpartition(".")[2]
