"""Compile Tile IR to a cubin: the whole CUDA target in order.

Tile IR -> (hoist, lower) -> Target IR: upstream gpu, nvvm, llvm, scf, arith -> LLVM dialect -> LLVM IR -> PTX -> cubin.
Without ptxas the artifact's code is the PTX itself, which the driver compiles when it is loaded.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from tessera.core.artifact import Resources
from tessera.core.compilation import LLVM_PASSES
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.events import PassRan
from tessera.core.listing import Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import Architecture, Target
from tessera.core.tile.editable import STAGE, stage_listing
from tessera.lowering.base.backends import Backend
from tessera.lowering.base.cuda_toolkit import Assembled, Assembler, Usage, assemble, assembling, find_tool
from tessera.lowering.base.ir_walk import LOOPS, walk
from tessera.lowering.base.llvm_ir import to_llvm_text
from tessera.lowering.base.passes import CANONICALIZE
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.cuda.edited_ptx import edited_text, refused, with_places
from tessera.lowering.cuda.fit import FIT, Attempts, Case, Code, fit
from tessera.lowering.cuda.kernel.kernel_emission import LoweredKernel, run_named
from tessera.lowering.cuda.listings import (
    Places,
    llvm_listing,
    ptx_for_assembler,
    ptx_listing,
    target_listing,
    without_fusions,
)
from tessera.lowering.cuda.ptx import Ptx, to_ptx
from tessera.lowering.cuda.remarks.missed_mma import for_tensor_cores, lost_products
from tessera.lowering.cuda.remarks.unaligned_accesses import unaligned_places
from tessera.lowering.cuda.schedule.context import kernel_of, unscheduled
from tessera.lowering.cuda.schedule.fp8_mma import byte_products, copied, widen_unfit
from tessera.lowering.cuda.schedule.passes import SCHEDULE_PASSES, schedule_tiles
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.simt.hoisting import hoist_tiles
from tessera.lowering.tile.pack_floats import widen_operands

# More than one: a single block per multiprocessor is what `setmaxnreg` needs.
_RESIDENT: Final = re.compile(r"^\.minnctapersm (?!1$)(\d+)$", re.MULTILINE)
_PIPELINE: Final = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,convert-nvvm-to-llvm,convert-math-to-llvm,"
    f"convert-arith-to-llvm,convert-cf-to-llvm,canonicalize{{{CANONICALIZE}}},cse,reconcile-unrealized-casts,"
    "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly})"
)


def generate(module: ir.Module, program: Program, target: Target, observe: bool) -> TargetCode:
    """Compile a Tile IR module for `target`; `module` is changed.

    With `observe`, the result has the listings `target`, `llvm` and `ptx`, made while ptxas works; `sass` is made from
    the cubin on demand.

    Raises:
        NotOnCuda: the kernel needs something that a GPU does not have.
        UnknownArchitecture: `target.arch` is not supported.
        CompilerCrash: LLVM or ptxas refuses the code, which is a bug of the compiler.
    """
    chip = target.kind.architecture(target.arch)
    function = next(op.operation for op in module.body.operations if op.operation.name == "func.func")
    bounded = all(op.name not in LOOPS for op in walk(function.regions[0].blocks[0]))
    dots = for_tensor_cores(walk(function.regions[0].blocks[0]))
    stage = _taken_stage(module)
    if stage is None:
        _settle_bytes(module, program, chip)
    hoist_tiles(function)
    stages = _Stages(module, program, target) if observe else None
    attempts = Attempts(program, target)

    def compile_code(lowered: LoweredKernel) -> Code:
        return _assembled(lowered, program, chip, attempts, observe=observe)

    fitted = fit(Case(module, function, program, target, stage), attempts, compile_code, stages)
    lowered, code = fitted.lowered, fitted.code
    shown = stages if stages is not None and lowered.plan is not None else None
    usage = code.usage
    frame = lowered.frame
    resources = Resources(
        scratch_bytes=frame.scratch_bytes if frame.spill else 0,
        shared_bytes=frame.shared.peak,
        registers=usage.registers or None,
        spill_bytes=usage.spill_bytes if usage.registers else None,
        stack_bytes=usage.stack_bytes if usage.registers else None,
        barriers=usage.barriers if usage.registers else None,
        notes=(*code.notes, *fitted.notes),
        buffers=lowered.buffers,
        attempts=fitted.attempts,
    )
    remarks = (*lost_products(dots, lowered.plan, fitted.refusal, chip), *unaligned_places(lowered.plan, program, chip))
    return TargetCode(
        code.binary, lowered.entry, tuple(frame.slots), frame.rule, resources, bounded,
        (*(shown.listings[1:] if shown else ()), *code.listings), tuple(shown.passes) if shown else (),
        remarks or fitted.remarks,
    )  # fmt: skip


class _Stages:
    """Record the IR after each pass that schedules a kernel, as listings; the first one is their input."""

    def __init__(self, module: ir.Module, program: Program, target: Target) -> None:
        self._module = module
        self._program = program
        self._target = target
        self.listings = [stage_listing(module, "cuda-begin", program)]
        self.passes: list[PassRan] = []

    def begin(self) -> None:
        """Forget the previous schedule, as another one is tried."""
        del self.listings[1:], self.passes[:]

    def __call__(self, name: str, seconds: float, /) -> None:
        """Record the IR after pass `name`."""
        before, after = self.listings[-1], stage_listing(self._module, name, self._program)
        self.listings.append(after)
        changed = before.records != after.records
        self.passes.append(PassRan(self._program.name, str(self._target), "tile", name, seconds, changed))


def _assembled(
    lowered: LoweredKernel, program: Program, chip: Architecture, attempts: Attempts, *, observe: bool
) -> Code:
    """Compile Target IR to machine code; with `observe`, also list the levels from Target IR to PTX."""
    if find_tool("ptxas") is None:
        ptx, below = _to_ptx(lowered.module, program, chip, observe, None)
        return Code(ptx.text.encode() + b"\0", Usage(0, 0, 0, 0), below)
    with assembling(chip.name) as assembler:
        ptx, below = _to_ptx(lowered.module, program, chip, observe, assembler)
        edited = edited_text(program)
        try:
            made = assembler.finish()
        except CompilerCrash as crash:
            if edited is None:
                raise
            raise refused(edited, crash) from None
        assembled = made if edited is not None else _relaxed(made, ptx.text, chip.name, attempts)
    return Code(assembled.cubin, assembled.usage, below, assembled.notes, assembled.serialised)


def _taken_stage(module: ir.Module) -> str | None:
    """Remove and return the name of the pass after which a module was read; None for other modules."""
    if STAGE not in module.operation.attributes:
        return None
    name = str(ir.StringAttr(module.operation.attributes[STAGE]).value)
    del module.operation.attributes[STAGE]
    return name if name in BACKEND.stages else None


def _to_ptx(
    module: ir.Module, program: Program, chip: Architecture, observe: bool, assembler: Assembler | None
) -> tuple[Ptx, list[Listing]]:  # fmt: skip
    """Compile a module of Target IR to PTX and pass it to the assembler; with `observe`, list the levels on the way.

    A listing is made while LLVM, in a thread of its own, or ptxas works on the level below it.
    """
    seen = module.operation.clone() if observe else None  # the passes to LLVM change the module
    text = _to_llvm(module, program)

    def translated() -> Ptx:
        ptx = to_ptx(text, chip, observe, observe and LLVM_PASSES in program.options)
        edited = edited_text(program)
        if edited is not None:
            ptx = replace(ptx, text=with_places(edited, ptx.text))
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
    listings += [llvm_listing(dump.text, places, dump.name) for dump in ptx.passes]
    return ptx, [*listings, llvm_listing(ptx.optimised, places), ptx_listing(ptx.text, places)]


def _relaxed(assembled: Assembled, ptx: str, chip: str, attempts: Attempts) -> Assembled:
    """Return the code, or that for fewer blocks per multiprocessor if the wanted number leaves too few registers."""
    wanted = _RESIDENT.search(ptx)
    if not assembled.usage.spill_bytes or wanted is None:
        return assembled
    free = assemble(ptx_for_assembler(_RESIDENT.sub("", ptx)), chip)
    if free.serialised:
        return free
    worse, better = (free, assembled) if free.usage.spill_bytes >= assembled.usage.spill_bytes else (assembled, free)
    blocks = {"min_blocks_per_sm": int(wanted[1]) if worse is assembled else 0}
    spilled = f"{worse.usage.spill_bytes:,} bytes of registers are spilled, and {better.usage.spill_bytes:,} otherwise"
    attempts.add(blocks, spilled)
    return better


def _settle_bytes(module: ir.Module, program: Program, chip: Architecture) -> None:
    """Widen 8-bit operands unless tensor cores multiply all of a kernel's as they are."""
    warps = program.options.get("num_warps")
    products = byte_products(list(walk(kernel_of(module).regions[0].blocks[0])))
    dots = widen_unfit(products, chip, warps if isinstance(warps, int) else 0)
    if not dots:
        return
    plan = schedule_tiles(module, program, chip)
    if not isinstance(plan, ScheduleView) or not copied(dots, plan):
        for dot in dots:
            widen_operands(dot)
    unscheduled(kernel_of(module))


def _to_llvm(module: ir.Module, program: Program) -> str:
    """Translate a module, verified and tidied before, to LLVM IR text."""
    without_fusions(module)
    run_named(_PIPELINE, module, "cuda-to-llvm")
    container = next((op.operation for op in module.body.operations if op.operation.name == "gpu.module"), None)
    if container is None:
        message = "the GPU code vanished on the way to LLVM"
        raise CompilerCrash(message, program.span)
    return to_llvm_text(container)


BACKEND: Final = Backend(generate, fp8_products=True, stages=(*(step.name for step in SCHEDULE_PASSES), FIT))
