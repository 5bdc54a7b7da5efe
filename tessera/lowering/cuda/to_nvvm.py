"""Tile IR to a cubin: the whole CUDA target in order.

Tile IR -> (hoist, lower) -> Target IR: upstream gpu, nvvm, llvm, scf, arith -> LLVM dialect -> LLVM IR -> PTX -> cubin.
Without ptxas the artifact's code is the PTX itself, which the driver compiles when it is loaded.
"""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from tessera.core.artifact import Remark, Resources
from tessera.core.errors.catalog import BadKernelOption, CompilerCrash
from tessera.core.events import PassRan
from tessera.core.listing import Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.resources import Buffers
from tessera.core.targets import Architecture, Target
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import place
from tessera.core.tile.records import listing_of_tile
from tessera.lowering.analysis.uniformity import LOOPS, Uniformity, analyse, is_tile, walk
from tessera.lowering.base.backends import Backend
from tessera.lowering.base.cuda_toolkit import Assembled, Assembler, Usage, assemble, assembling, find_tool
from tessera.lowering.base.diagnostics import crash
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.base.llvm_ir import to_llvm_text
from tessera.lowering.base.passes import CANONICALIZE, run_upstream, verify
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.cuda.base.gpu_function import DEFAULT_LANES, WARP, GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.kernel.function import lanes_of, lower_tiles, with_depth
from tessera.lowering.cuda.listings import (
    Places,
    llvm_listing,
    ptx_for_assembler,
    ptx_listing,
    target_listing,
    without_fusions,
)
from tessera.lowering.cuda.pipeline.producer_consumer import Depth
from tessera.lowering.cuda.ptx import Ptx, to_ptx
from tessera.lowering.cuda.remarks.missed_mma import for_tensor_cores, lost_products
from tessera.lowering.cuda.remarks.tiles_in_memory import LARGE_TILE, large_tiles
from tessera.lowering.cuda.remarks.unaligned_accesses import unaligned_places
from tessera.lowering.cuda.schedule.context import Refusal, kernel_of, unscheduled
from tessera.lowering.cuda.schedule.fp8_mma import byte_products, copied, widen_unfit
from tessera.lowering.cuda.schedule.passes import Observer, schedule_tiles
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.hoisting import hoist_tiles
from tessera.lowering.cuda.simt.lowering import lower
from tessera.lowering.cuda.simt.thread_coarsening import coarsen
from tessera.lowering.cuda.simt.tile_values import NeedsSpillError
from tessera.lowering.cuda.storage.shared_scratch import NeedsRoomError
from tessera.lowering.cuda.storage.warps import OutOfTurnError
from tessera.lowering.tile.pack_floats import widen_factors
from tessera.lowering.tile.round_operands import round_factors

_MOST_STAGES: Final = 7
# More than one: a single block a multiprocessor is what warps that share out registers among themselves need.
_RESIDENT: Final = re.compile(r"^\.minnctapersm (?!1$)\d+$", re.MULTILINE)
# One constant for each number, before anybody reads the Target IR.  From the bottom up, what nobody uses goes first:
# the same comes out, in a fifth of the time.
_TIDY: Final = f"builtin.module(canonicalize{{top-down=false {CANONICALIZE}}},cse)"
_PIPELINE: Final = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,convert-nvvm-to-llvm,convert-math-to-llvm,"
    f"convert-arith-to-llvm,convert-cf-to-llvm,canonicalize{{{CANONICALIZE}}},cse,reconcile-unrealized-casts,"
    "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly})"
)


def generate(module: Any, program: Program, target: Target, observe: bool) -> TargetCode:
    """Compile a Tile IR module for `target`; `module` is changed.

    With `observe`, the listings `target`, `llvm` and `ptx` come along, made while ptxas works; `sass` is made of the
    cubin when somebody looks.

    Raises:
        NotOnCuda: the kernel needs what a GPU does not have.
        UnknownArchitecture: `target.arch` is none of ours.
        CompilerCrash: LLVM or ptxas refuses the code, which is our fault.
    """
    chip = target.kind.architecture(target.arch)
    function = next(op.operation for op in module.body.operations if op.operation.name == "func.func")
    bounded = all(op.name not in LOOPS for op in walk(function.regions[0].blocks[0]))
    dots = for_tensor_cores(walk(function.regions[0].blocks[0]))
    _settle_bytes(module, program, chip)
    facts = hoist_tiles(function)
    listings: list[Listing] = []
    passes: list[PassRan] = []
    if observe:
        listings.append(listing_of_tile(module, "cuda-begin", program))

    def decided(name: str, seconds: float) -> None:
        before, after = listings[-1], listing_of_tile(module, name, program)
        listings.append(after)
        passes.append(PassRan(program.name, str(target), "tile", name, seconds, before.records != after.records))

    observer = decided if observe else None
    try:
        lowered = _lower(module, program, chip, facts, observer)
    except OutOfTurnError:
        del listings[1:], passes[:]
        unscheduled(function)
        lowered = _lower(module, _without_turns(program), chip, facts, observer)
    if lowered.plan is None:
        del listings[1:], passes[:]
    del listings[:1]  # what the passes of all targets made of it, which is shown already
    if find_tool("ptxas") is None:
        ptx, below = _to_ptx(lowered.module, program, chip, observe, None)
        code, usage, notes = ptx.text.encode() + b"\0", Usage(0, 0, 0, 0), ()
    else:
        with assembling(chip.name) as assembler:
            ptx, below = _to_ptx(lowered.module, program, chip, observe, assembler)
            assembled = _relaxed(assembler.finish(), ptx.text, chip.name)
        code, usage, notes = assembled.cubin, assembled.usage, assembled.notes
    listings += below
    frame = lowered.frame
    resources = Resources(
        scratch_bytes=frame.scratch_bytes if frame.spill else 0,
        shared_bytes=frame.shared.peak,
        registers=usage.registers or None,
        spill_bytes=usage.spill_bytes if usage.registers else None,
        stack_bytes=usage.stack_bytes if usage.registers else None,
        barriers=usage.barriers if usage.registers else None,
        notes=notes,
        buffers=lowered.buffers,
    )
    return TargetCode(
        code, lowered.entry, tuple(frame.slots), frame.rule, resources, bounded, tuple(listings), tuple(passes),
        (*lost_products(dots, lowered.plan, lowered.refusal, chip), *unaligned_places(lowered.plan, program, chip))
        or lowered.large,
    )  # fmt: skip


def _to_ptx(
    module: Any, program: Program, chip: Architecture, observe: bool, assembler: Assembler | None
) -> tuple[Ptx, list[Listing]]:  # fmt: skip
    """PTX of a module of Target IR, on its way to the assembler; with `observe`, the levels from Target IR to PTX.

    A listing is made while LLVM, which works in a thread of its own, or ptxas makes what comes below it.
    """
    seen = module.operation.clone() if observe else None  # the passes to LLVM change the module
    text = _to_llvm(module, program)

    def translated() -> Ptx:
        ptx = to_ptx(text, chip, keep_optimised=observe)
        if assembler is not None:
            assembler.begin(ptx_for_assembler(ptx.text))
        return ptx

    if seen is None:
        return translated(), []
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(translated)
        places = Places.of(seen)
        listings = [target_listing(seen)]
        ptx = waiting.result()
    return ptx, [*listings, llvm_listing(ptx.optimised, places), ptx_listing(ptx.text, places)]


def _relaxed(assembled: Assembled, ptx: str, chip: str) -> Assembled:
    """The same; where the blocks wanted side by side leave too few registers, of fewer blocks."""
    if assembled.usage.spill_bytes and _RESIDENT.search(ptx):
        free = assemble(ptx_for_assembler(_RESIDENT.sub("", ptx)), chip)
        assembled = min(assembled, free, key=lambda found: found.usage.spill_bytes)
    return assembled


@dataclass(frozen=True, slots=True)
class _Lowered:
    """Target IR; `plan` of tiles in registers, or None and (where somebody wonders) the `refusal` that says why not."""

    module: Any
    frame: GpuFunction
    entry: str
    buffers: tuple[Buffers, ...] = ()
    plan: ScheduleView | None = None
    refusal: Refusal | None = None
    large: tuple[Remark, ...] = ()


def _lower(module: Any, program: Program, chip: Architecture, facts: Uniformity, observe: Observer | None) -> _Lowered:
    """Target IR: tiles in registers where the kernel allows it, and shared memory has room for their factors.

    A second time, with private global memory, where shared memory turns out to be too small.
    """
    refusals: list[Refusal] = []
    function = kernel_of(module)
    plan = schedule_tiles(module, program, chip, observe)
    if isinstance(plan, Refusal):
        refusals.append(plan)
    elif plan is not None:
        wanted = program.options.get("stages")
        most = wanted if isinstance(wanted, int) else _MOST_STAGES
        with suppress(NeedsRoomError):  # then tiles lie in memory as a whole
            return with_depth(plan, most, lambda depth: _attempt_tiles(function, program, chip, plan, depth))
        full = f"its factors do not fit the {chip.shared_bytes:,} bytes of shared memory"
        refusals.append(Refusal(full, "smaller blocks"))
    unscheduled(function)
    facts = _without_tensor_cores(function, facts)
    refusal = next(iter(refusals), None)
    large = large_tiles(walk(function.regions[0].blocks[0]), refusal, chip)  # lowering takes the operations apart
    try:
        lowered = _attempt(function, program, chip, facts, spill=False)
    except NeedsSpillError:
        lowered = _attempt(function, program, chip, facts, spill=True)
    return replace(lowered, refusal=refusal, large=large)


def _without_turns(program: Program) -> Program:
    """The program, whose warp groups take no turns in loops of two products.

    Raises BadKernelOption where somebody asks for them.
    """
    if program.options.get("turns"):
        raise BadKernelOption(
            "the warp groups of this kernel cannot take turns: in its loop, lanes of both exchange elements of a tile",
            program.span, "leave out `turns`",
        )  # fmt: skip
    return replace(program, options={**program.options, "turns": 0})


def _settle_bytes(module: Any, program: Program, chip: Architecture) -> None:
    """Leave factors of 8 bits only where tensor cores multiply all of a kernel's as they are."""
    warps = program.options.get("warps")
    dots = widen_unfit(_byte_products(kernel_of(module)), chip, warps if isinstance(warps, int) else 0)
    if not dots:
        return
    plan = schedule_tiles(module, program, chip)
    if not isinstance(plan, ScheduleView) or not copied(dots, plan):
        for dot in dots:
            widen_factors(dot)
    unscheduled(kernel_of(module))


def _without_tensor_cores(function: Any, facts: Uniformity) -> Uniformity:
    """Widen factors of 8 bits, and round those of tf32; gives the facts about the function as it is then."""
    bytes_left = _byte_products(function)
    for dot in bytes_left:
        widen_factors(dot)
    rounded = [op for op in walk(function.regions[0].blocks[0]) if COMPUTE in op.attributes]
    for dot in rounded:
        round_factors(dot)
    return analyse(function) if bytes_left or rounded else facts


def _byte_products(function: Any) -> list[Any]:
    return byte_products(list(walk(function.regions[0].blocks[0])))


def _attempt(function: Any, program: Program, chip: Architecture, facts: Uniformity, *, spill: bool) -> _Lowered:
    lanes = _lanes(function, program, chip)
    coarse = coarsen(function, program, facts)
    threads = lanes // coarse.elements if program.group is not None else lanes
    module, body, kernel, build, entry = _kernel(function, program, threads)
    rule = coarse.rule(launch_rule(function, program, lanes), threads)
    frame = GpuFunction(program, chip, rule, build, entry, lanes, spill)
    frame.begin()
    lower(frame, facts, function, coarse)
    frame.finish(body, kernel)
    _run(_TIDY, module, "to-cuda")
    return _Lowered(module, frame, ir.StringAttr(function.attributes["sym_name"]).value)


def _attempt_tiles(function: Any, program: Program, chip: Architecture, plan: ScheduleView, depth: Depth) -> _Lowered:
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
    buffers = lower_tiles(frame, plan, function, depth)
    if buffers:
        kernel.attributes["tessera.buffers"] = ir.ArrayAttr.get([ir.StringAttr.get(str(one)) for one in buffers])
    frame.finish(body, kernel)
    _run(_TIDY, module, "to-cuda")
    return _Lowered(module, frame, ir.StringAttr(function.attributes["sym_name"]).value, buffers, plan)


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
    wanted = program.options.get("lanes")
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


def _run(pipeline: str, module: Any, stage: str) -> None:
    """Verify what comes in, as a pass may crash on what is wrong, and run upstream passes."""
    verify(module, stage)
    _upstream(pipeline, module, stage)


def _upstream(pipeline: str, module: Any, stage: str) -> None:
    try:
        run_upstream(pipeline, module)
    except ir.MLIRError as error:
        raise crash(error, stage) from error


def _to_llvm(module: Any, program: Program) -> str:
    """LLVM IR text of the kernel; what comes in was verified and tidied."""
    without_fusions(module)
    _upstream(_PIPELINE, module, "cuda-to-llvm")
    container = next((op.operation for op in module.body.operations if op.operation.name == "gpu.module"), None)
    if container is None:
        message = "the GPU code vanished on the way to LLVM"
        raise CompilerCrash(message, program.span)
    return to_llvm_text(container)


BACKEND: Final = Backend(generate, fp8_products=True)
