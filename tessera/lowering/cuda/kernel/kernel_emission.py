"""Emit the GPU function of a kernel: Target IR from Tile IR, with tiles in registers or in shared memory."""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.resources import Buffers
from tessera.core.targets import Architecture
from tessera.core.tile.location import place
from tessera.lowering.analysis.uniformity import Uniformity, is_tile, walk
from tessera.lowering.base.diagnostics import crash
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.base.passes import CANONICALIZE, run_upstream, verify
from tessera.lowering.cuda.base.gpu_function import DEFAULT_LANES, WARP, GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.kernel.function import lanes_of, lower_tiles
from tessera.lowering.cuda.remarks.tiles_in_memory import LARGE_TILE
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.lowering import lower
from tessera.lowering.cuda.simt.thread_coarsening import coarsen

# One constant for each number, before anybody reads the Target IR.  From the bottom up, what nobody uses goes first:
# the same comes out, in a fifth of the time.
_TIDY: Final = f"builtin.module(canonicalize{{top-down=false {CANONICALIZE}}},cse)"


@dataclass(frozen=True, slots=True)
class Lowered:
    """Target IR of one kernel, and whether it can be run.

    plan: of tiles in registers; None where they are in shared memory
    stalls: whether a warp group that has its turn at products waits for the other one, which waits for its own turn
    """

    module: Any
    frame: GpuFunction
    entry: str
    buffers: tuple[Buffers, ...] = ()
    plan: ScheduleView | None = None
    stalls: bool = False

    @property
    def excess(self) -> int:
        """Bytes of shared memory that are needed and not there."""
        limit = self.frame.shared.limit
        return 0 if limit is None else max(0, self.frame.shared.peak - limit)


def emit_in_memory(function: Any, program: Program, chip: Architecture, facts: Uniformity, *, spill: bool) -> Lowered:
    """Emit a kernel of lanes, or one whose tiles are kept in shared memory.

    spill: whether tiles that shared memory has no room for are kept in global memory; else they are placed beyond its
           end, as if it were larger (see `Lowered.excess`)
    Raises NotOnCuda for what the kernel needs and a GPU does not have.
    """
    lanes = _lanes(function, program, chip)
    coarse = coarsen(function, program, facts)
    threads = lanes // coarse.elements if program.group is not None else lanes
    module, body, kernel, build, entry = _kernel(function, program, threads)
    rule = coarse.rule(launch_rule(function, program, lanes), threads)
    frame = GpuFunction(program, chip, rule, build, entry, lanes, spill)
    frame.begin()
    lower(frame, facts, function, coarse)
    frame.finish(body, kernel)
    run_checked(_TIDY, module, "to-cuda")
    return Lowered(module, frame, ir.StringAttr(function.attributes["sym_name"]).value)


def emit_in_registers(program: Program, chip: Architecture, plan: ScheduleView) -> Lowered:
    """Emit a kernel whose tiles are kept in registers, as its schedule says.

    Raises NotOnCuda for what the kernel needs and a GPU does not have.
    """
    function = plan.function
    lanes = lanes_of(plan)
    module, body, kernel, build, entry = _kernel(function, program, lanes)
    schedule = plan.schedule
    if plan.products or schedule.min_blocks_per_sm:  # left alone, ptxas guesses how many will fit, and spills for it
        kernel.attributes["nvvm.minctasm"] = ir.Attribute.parse(f"{max(1, schedule.min_blocks_per_sm)} : i32")
    if schedule.cluster > 1:
        kernel.attributes["nvvm.cluster_dim"] = ir.Attribute.parse(f"array<i32: {schedule.cluster}, 1, 1>")
    rule = replace(
        launch_rule(function, program, lanes), lanes_per_group=lanes, cluster=schedule.cluster,
        persistent=schedule.persistent, early=chip.dependent_launch,
    )  # fmt: skip
    frame = GpuFunction(program, chip, rule, build, entry, lanes, spill=False)
    frame.begin()
    buffers, takes_turns = lower_tiles(frame, plan)
    if buffers:
        kernel.attributes["tessera.buffers"] = ir.ArrayAttr.get([ir.StringAttr.get(str(one)) for one in buffers])
    frame.finish(body, kernel)
    run_checked(_TIDY, module, "to-cuda")
    name = ir.StringAttr(function.attributes["sym_name"]).value
    return Lowered(module, frame, name, buffers, plan, stalls=not takes_turns)


def _kernel(function: Any, program: Program, lanes: int) -> tuple[Any, Any, Any, IndexBuilder, Any]:
    """An empty GPU function: its module, the module's block, the function, and its entry with a builder in it."""
    location = place(program.span)
    module = ir.Module.create(loc=location)
    outer = IndexBuilder(module.body, location)
    container = outer.create("gpu.module", attributes={"sym_name": ir.StringAttr.get("kernels")}, regions=1)
    body = container.regions[0].blocks.append()
    with outer.at(body):
        kernel = outer.create(
            "llvm.func",
            attributes={
                "sym_name": function.attributes["sym_name"],
                "function_type": "!llvm.func<void ()>",
                "linkage": "#llvm.linkage<external>",
                "CConv": "#llvm.cconv<ccc>",
                "nvvm.kernel": "unit",
                "nvvm.reqntid": f"array<i32: {lanes}, 1, 1>",
            },
            regions=1,
        )
    entry = kernel.regions[0].blocks.append()
    return module, body, kernel, IndexBuilder(entry, location), entry


def _lanes(function: Any, program: Program, chip: Architecture) -> int:
    """Lanes of a hardware block: those of `tile[...]`, the schedule's, or as many as the largest tile has work for."""
    if program.group is not None:
        return math.prod(program.group)
    wanted = program.options.get("threads_per_block")
    if isinstance(wanted, int):
        return wanted
    if program.domain.kind == "lanes":
        return DEFAULT_LANES
    operations = list(walk(function.regions[0].blocks[0]))
    shapes = [ir.ShapedType(v.type).shape for op in operations for v in op.results if is_tile(v.type)]
    shapes += [ir.ShapedType(op.operands[0].type).shape for op in operations if op.name == "tessera.copy"]
    sizes = [math.prod(shape) for shape in shapes]
    largest = max(sizes, default=1)
    if largest > LARGE_TILE and all(op.name != "tessera.dot" for op in operations):  # products want the registers
        return chip.lanes
    return min(DEFAULT_LANES, max(WARP, 1 << (largest - 1).bit_length()))


def run_checked(pipeline: str, module: Any, stage: str) -> None:
    """Verify what comes in, as a pass may crash on what is wrong, and run upstream passes."""
    verify(module, stage)
    run_named(pipeline, module, stage)


def run_named(pipeline: str, module: Any, stage: str) -> None:
    """Run upstream passes; a failure is said to be that of `stage`."""
    try:
        run_upstream(pipeline, module)
    except ir.MLIRError as error:
        raise crash(error, stage) from error
