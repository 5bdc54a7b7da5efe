"""List the passes that schedule a tile kernel, in order: each decides one thing and writes it into the Tile IR.

Emission reads these attributes, through a `ScheduleView`, and nothing else.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.schedule_attributes import CARRIED, LAYOUT, SHARED, STREAMED, mark_only, set_layouts
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.base.launch_grid import ranges_of
from tessera.lowering.base.passes import Observer, run_passes
from tessera.lowering.cuda.schedule.context import Refusal, ScheduleContext, SchedulePass, kernel_of, refusal_of
from tessera.lowering.cuda.schedule.edited_schedule import check_schedule
from tessera.lowering.cuda.schedule.layout_inference import infer, reduction_bits
from tessera.lowering.cuda.schedule.legality import eligible, first_unfit, has_lanes
from tessera.lowering.cuda.schedule.loads import PadRows, PipelineLoads
from tessera.lowering.cuda.schedule.mma import AsyncMma, OverlapMma, SelectMma
from tessera.lowering.cuda.schedule.mma_selection import (
    MOST_WARP_BITS,
    accumulator_layouts,
    multiplies_tf32,
    product_bits,
)
from tessera.lowering.cuda.schedule.rasterization import cluster_of, has_raster_groups, load_imbalance, raster_group_of
from tessera.lowering.cuda.schedule.register_pressure import require_registers
from tessera.lowering.cuda.schedule.stores import DeferEpilogue, SplitEpilogue
from tessera.lowering.cuda.schedule.view import ScheduleView, padded
from tessera.lowering.cuda.storage.streamed_reduction import find_streams
from tessera.lowering.cuda.storage.warps import WARP
from tessera.lowering.tile.round_operands import round_dot_operands

_MOST_VALUES: Final = 256
_ROW_VALUES: Final = 128
_VALUES: Final = 32
_LANES_RESIDENT: Final = 512
"""Lanes of a multiprocessor with 128 registers each: the fastest of 40 to 255 for rows of 8192 on an H200."""


@dataclass(frozen=True, slots=True)
class SelectWarps(SchedulePass):
    """Choose how many warps compute a group's tiles together (option `num_warps`).

    before: `func.func @f(...)`
    after:  `func.func @f(...) warps 8`; with reductions, also how many blocks a multiprocessor should hold, which
            leaves 128 registers to a lane: fewer hide less of memory's latency, more leave too little for rows in
            registers
    """

    name: ClassVar[str] = "cuda-select-warps"

    def decide(self, kernel: ScheduleContext) -> None:
        """Take what the products need, or few warps with much work each: a reduction has a fixed cost per warp."""
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
class Rasterize(SchedulePass):
    """Choose the order of the groups, and which blocks share loads (options `raster_group`, `cluster`).

    after: the function says `grid persistent`: as many blocks as multiprocessors, each of which takes one group after
           the other; `raster_group 16`: 16 rows of groups are done side by side, column after column, before the
           next rows; `load_balance large and small groups in pairs`, of a few heads at a time, where groups differ in
           work; `cluster 2`, and loads `shared by the cluster`
    """

    name: ClassVar[str] = "cuda-rasterize"

    def decide(self, kernel: ScheduleContext) -> None:
        """Choose by how loop bounds and load addresses depend on the group's number."""
        plan = kernel.plan
        load_balance = load_imbalance(plan.rings)
        cluster, shared = (1, set[AnyOp]()) if load_balance else cluster_of(kernel.function, kernel.program, plan)
        for load in shared:
            mark_only(load, SHARED)
        # The blocks of a cluster lie in one raster group.
        raster_group = -(-kernel.option("raster_group", raster_group_of(kernel.function)) // cluster) * cluster
        rasterized = bool(plan.products) and not load_balance and has_raster_groups(ranges_of(kernel.function))
        kernel.set(
            persistent=plan.specialised,
            load_balance=load_balance,
            cluster=cluster,
            raster_group=raster_group if rasterized else 1,
        )


@dataclass(frozen=True, slots=True)
class InferLayouts(SchedulePass):
    """Give each tile its place in the registers of lanes and warps (options `vector_width`, `warp_columns`).

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b layout registers [1:1, 0:8] lanes [1:2, 1:4, 0:1, 0:2, 0:4] warps [0:16, 0:32]`:
            the second bit of a register's number moves 8 along axis 0; see `core.layouts`
    `vector`: a lane has at most so many neighbouring elements of what is loaded, stored or reduced, where 16 bytes are
            the rule: with `vector_width=2`, `registers [1:1] lanes [1:2, 1:4, ...]`
    `warp_columns`: so many warps share the columns of a product, and the others its rows, where the rule is what reads
            least of the operands: with `warp_columns=2`, `warps [0:16, 1:32]`.  Warp groups have whole rows, and so
            have warps that reduce them: there, and where a warp would have less than an instruction, another value
            than those that the message names is a mistake (TSR-E005)
    """

    name: ClassVar[str] = "cuda-infer-layouts"

    def decide(self, kernel: ScheduleContext) -> None:
        """Infer layouts from products, reductions, loads and stores outwards."""
        plan, beside = kernel.plan, kernel.option("warp_columns", 0)
        accumulators = accumulator_layouts(plan.products, kernel.operations, plan.bits, plan.is_staged, beside)
        vector = kernel.option("vector_width", 0)
        layouts = infer(kernel.operations, plan.bits, padded, kernel.access_bytes, accumulators, plan.parts, vector)
        for op in kernel.operations:
            results = [layouts.get(v) for v in op.results]
            set_layouts(op, LAYOUT, results)
            if op.name == "scf.for":
                carried = [layouts.get(v) for v in list(op.regions[0].blocks[0].arguments)[1:]]
                if carried != results:
                    set_layouts(op, CARRIED, carried)


SCHEDULE_PASSES: Final[tuple[type[SchedulePass], ...]] = (
    # What the tensor cores can do decides everything else.
    SelectMma,
    SelectWarps,
    # Only loads that products read, so after these were chosen; TMA reads what is copied to padded rows.
    PadRows,
    PipelineLoads,
    # Products whose operands are copied ahead can run on while others are prepared.
    OverlapMma,
    AsyncMma,
    Rasterize,
    # What is copied ahead needs no registers.
    InferLayouts,
    # By the layouts.
    SplitEpilogue,
    # Of stores by warp groups.
    DeferEpilogue,
)


def schedule_tiles(
    module: ir.Module, program: Program, chip: Architecture, observe: Observer | None = None, behind: str | None = None
) -> ScheduleView | Refusal | None:
    """Schedule the kernel of a module.

    Args:
        module: Tile IR, which is annotated in place.
        program: the kernel that the module was made of.
        chip: the GPU to schedule for.
        observe: called after each pass.
        behind: the last pass that the module has been through, for an edited schedule; None: run all passes.

    Returns:
        The schedule, a refusal to keep tiles in registers, or None for kernels with code for single lanes.

    Raises:
        NotOnCuda: accumulators that no lane has registers for.
        BadTileIR: an edited schedule that is not legal.
    """
    function = kernel_of(module)
    operations: list[AnyOp] = list(walk(function.regions[0].blocks[0]))
    if not eligible(operations, program):
        unfit = None if has_lanes(program) else first_unfit(operations)
        if unfit is None:
            return None
        return Refusal(f"`{_word(unfit)}` keeps the kernel's tiles in memory", "another kernel for that", unfit)
    for op in operations if behind is None else ():
        if COMPUTE in op.attributes and not multiplies_tf32(op):
            round_dot_operands(op)
    names = [step.name for step in SCHEDULE_PASSES]
    done = 0 if behind is None else names.index(behind) + 1 if behind in names else len(names)
    if behind is not None:
        check_schedule(function, chip)
    run_passes([step(program, chip) for step in SCHEDULE_PASSES[done:]], module, observe)
    refusal = refusal_of(function)
    if refusal is not None:
        return refusal
    plan = ScheduleView(function)
    require_registers(plan)
    return plan


def _word(op: AnyOp) -> str:
    """Return the name of an operation without its dialect."""
    return str(op.name).rpartition(".")[2]
