"""Emit the GPU function of a kernel: Target IR from Tile IR, with tiles in registers or in shared memory."""

import math
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.resources import Buffers
from tessera.core.targets import Architecture
from tessera.core.tile.location import place
from tessera.lowering.base.diagnostics import crash
from tessera.lowering.base.ir_walk import is_tile, walk
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.base.passes import CANONICALIZE, run_upstream, verify
from tessera.lowering.cuda.base.gpu_function import DEFAULT_LANES, WARP, GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.kernel.function import lanes_of, lower_tiles
from tessera.lowering.cuda.remarks.tiles_in_memory import LARGE_TILE
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.analyses import KernelAnalyses
from tessera.lowering.cuda.simt.lowering import lower
from tessera.lowering.cuda.simt.thread_coarsening import coarsen

# Keep one constant for each number, so that the Target IR is readable.  From the bottom up, unused operations go
# first: the result is the same, in a fifth of the time.
_TIDY: Final = f"builtin.module(canonicalize{{top-down=false {CANONICALIZE}}},cse)"


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """Hold the Target IR of one kernel, and whether it can be run.

    plan: the schedule of tiles in registers; None where they are in shared memory
    stalls: whether the warp groups deadlock: one that has its turn at MMAs waits for the other, which waits for its own
    """

    module: ir.Module
    frame: GpuFunction
    entry: str
    buffers: tuple[Buffers, ...] = ()
    plan: ScheduleView | None = None
    stalls: bool = False

    @property
    def excess(self) -> int:
        """Return the bytes of shared memory that the kernel needs beyond what there is."""
        limit = self.frame.shared.limit
        return 0 if limit is None else max(0, self.frame.shared.peak - limit)


@dataclass(frozen=True, slots=True)
class _EmptyKernel:
    """A GPU function without code: the module, its `gpu.module`'s block, the function, and a builder at its entry."""

    module: ir.Module
    container: ir.Block
    function: ir.Operation
    entry: ir.Block
    build: IndexBuilder

    @classmethod
    def create(cls, source: AnyOp, program: Program, lanes: int) -> "_EmptyKernel":
        """Create the GPU function for the Tile IR function `source`, run by blocks of `lanes`."""
        location = place(program.span)
        module = ir.Module.create(loc=location)
        outer = IndexBuilder(module.body, location)
        container = outer.create("gpu.module", attributes={"sym_name": ir.StringAttr.get("kernels")}, regions=1)
        body = container.regions[0].blocks.append()
        with outer.at(body):
            function = outer.create(
                "llvm.func",
                attributes={
                    "sym_name": source.attributes["sym_name"],
                    "function_type": "!llvm.func<void ()>",
                    "linkage": "#llvm.linkage<external>",
                    "CConv": "#llvm.cconv<ccc>",
                    "nvvm.kernel": "unit",
                    "nvvm.reqntid": f"array<i32: {lanes}, 1, 1>",
                },
                regions=1,
            )
        entry = function.regions[0].blocks.append()
        return cls(module, body, function, entry, IndexBuilder(entry, location))

    def finish(self, frame: GpuFunction) -> None:
        """Give the function, whose code is complete, its type, and tidy the module."""
        frame.finish(self.container, self.function)
        run_checked(_TIDY, self.module, "to-cuda")


def emit_in_memory(
    function: AnyOp, program: Program, chip: Architecture, facts: KernelAnalyses, *, spill: bool
) -> LoweredKernel:
    """Emit a kernel of lanes, or one whose tiles are kept in shared memory.

    spill: whether tiles that do not fit shared memory are kept in global memory; otherwise they are placed beyond its
           end, as if it were larger (see `LoweredKernel.excess`)

    Raises:
        NotOnCuda: the kernel needs something that a GPU does not have.
    """
    lanes = _lanes(function, program, chip)
    coarse = coarsen(function, program, facts)
    threads = lanes // coarse.elements if program.group is not None else lanes
    kernel = _EmptyKernel.create(function, program, threads)
    rule = coarse.rule(launch_rule(function, program, lanes), threads)
    frame = GpuFunction(program, chip, rule, kernel.build, kernel.entry, lanes, spill)
    frame.begin()
    lower(frame, facts, function, coarse)
    kernel.finish(frame)
    return LoweredKernel(kernel.module, frame, ir.StringAttr(function.attributes["sym_name"]).value)


def emit_in_registers(program: Program, chip: Architecture, plan: ScheduleView) -> LoweredKernel:
    """Emit a kernel whose tiles are kept in registers, as its schedule says.

    Raises:
        NotOnCuda: the kernel needs something that a GPU does not have.
    """
    function = plan.function
    lanes = lanes_of(plan)
    kernel = _EmptyKernel.create(function, program, lanes)
    schedule = plan.schedule
    if plan.products or schedule.min_blocks_per_sm:  # otherwise ptxas guesses how many will fit, and spills for it
        kernel.function.attributes["nvvm.minctasm"] = ir.Attribute.parse(f"{max(1, schedule.min_blocks_per_sm)} : i32")
    if schedule.cluster > 1:
        kernel.function.attributes["nvvm.cluster_dim"] = ir.Attribute.parse(f"array<i32: {schedule.cluster}, 1, 1>")
    rule = replace(
        launch_rule(function, program, lanes), lanes_per_group=lanes, cluster=schedule.cluster,
        persistent=schedule.persistent, early=chip.dependent_launch,
    )  # fmt: skip
    frame = GpuFunction(program, chip, rule, kernel.build, kernel.entry, lanes, spill=False)
    frame.begin()
    buffers, is_pingpong = lower_tiles(frame, plan)
    if buffers:
        kernel.function.attributes["tessera.buffers"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(str(one)) for one in buffers]
        )
    kernel.finish(frame)
    name = ir.StringAttr(function.attributes["sym_name"]).value
    return LoweredKernel(kernel.module, frame, name, buffers, plan, stalls=not is_pingpong)


def _lanes(function: AnyOp, program: Program, chip: Architecture) -> int:
    """Return the lanes of a block: those of `tile[...]`, the schedule's, or as many as the largest tile can occupy."""
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
    if largest > LARGE_TILE and all(op.name != "tessera.dot" for op in operations):  # MMAs need the registers
        return chip.lanes
    return min(DEFAULT_LANES, max(WARP, 1 << (largest - 1).bit_length()))


def run_checked(pipeline: str, module: ir.Module, stage: str) -> None:
    """Verify a module, as upstream passes may crash on an invalid one, and run them."""
    verify(module, stage)
    run_named(pipeline, module, stage)


def run_named(pipeline: str, module: ir.Module, stage: str) -> None:
    """Run upstream passes; a failure is reported as one of `stage`."""
    try:
        run_upstream(pipeline, module)
    except ir.MLIRError as error:
        raise crash(error, stage) from error
