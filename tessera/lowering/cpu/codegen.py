"""From target IR to an object file: upstream conversions, LLVM's optimizer, the host's code generator."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from llvmlite import binding

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import AnyOp, ir
from tessera.core.targets import Target
from tessera.core.tile.location import spans
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.llvm_ir import parse, to_llvm_text
from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, PassDump
from tessera.lowering.base.llvm_passes import traced
from tessera.lowering.base.passes import CANONICALIZE, run_upstream
from tessera.lowering.cpu.masked_load_workaround import load_by_registers
from tessera.lowering.cpu.masked_store_workaround import store_lone_lanes

_LOWERING: Final = (
    f"builtin.module(canonicalize{{{CANONICALIZE}}},cse,convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,"
    "convert-arith-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,reconcile-unrealized-casts)"
)
_DEBUG: Final = "builtin.module(ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly})"
_SPEED: Final = 2
_PIPELINE: Final = LlvmPipeline(_SPEED, vectorize=True)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """An ELF object, and what it looks like as LLVM IR (optimized) and assembly; texts are empty unless asked for.

    passes: LLVM IR after each of LLVM's passes; none unless asked for
    """

    code: bytes
    llvm: str = ""
    assembly: str = ""
    passes: tuple[PassDump, ...] = ()


def lower_to_llvm(module: ir.Module) -> None:
    """Turn target IR into the LLVM dialect, in place."""
    run_upstream(_LOWERING, module)


def add_line_table(module: ir.Module) -> None:
    """Let the locations of target IR reach assembly.  LLVM has room for one place an operation: the first."""

    def visit(op: AnyOp) -> ir.WalkResult:
        if isinstance(op.location, ir.FusedLoc) and (places := spans(op.location)):
            op.operation.location = ir.Location.file(places[0].file, places[0].line, places[0].column)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    run_upstream(_DEBUG, module)


def generate_code(
    module: ir.Module, target: Target, *, observe: bool, observe_passes: bool = False
) -> MachineCode:  # fmt: skip
    """Compile an LLVM dialect module for `target` (an empty `arch` is the host)."""
    llvm = parse(to_llvm_text(module.operation))
    described, machine = _machine(target.arch, target.features)
    llvm.triple = machine.triple
    llvm.data_layout = str(machine.target_data)
    passes = traced(str(llvm), described, _PIPELINE) if observe_passes else ()
    _PIPELINE.run(llvm, machine)
    text = str(llvm)
    if (mended := load_by_registers(store_lone_lanes(text), described.features)) != text:
        llvm, text = parse(mended), mended
    if not observe:
        return MachineCode(machine.emit_object(llvm))
    return MachineCode(machine.emit_object(llvm), text, machine.emit_assembly(llvm), passes)


@cache
def _machine(arch: str, features: str) -> tuple[Machine, binding.TargetMachine]:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # LLVM 22 asserts in this pass ("Getting value from an unknown LocationSize") on masked accesses of the stack; it
    # splits copies to avoid blocked store forwarding, which our code, with its own vectors, has nothing of.
    binding.set_option("tessera", "-x86-disable-avoid-SFB")
    host = host_target()
    cpu, features = (arch, features) if arch else (host.arch, host.features)
    described = Machine(binding.Target.from_default_triple().triple, cpu, features, _SPEED, "pic", "small")
    try:
        return described, described.make()
    except RuntimeError as error:
        msg = f"LLVM has no code generator for {arch or host.arch}: {error}"
        raise CompilerCrash(msg) from error
