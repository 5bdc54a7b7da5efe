"""From target IR to an object file: upstream conversions, LLVM's optimizer, the host's code generator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from llvmlite import binding

from tessera.core.base.source import Span
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.targets import Target
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.llvm_ir import parse, to_llvm_text
from tessera.lowering.base.llvm_optimizer import LlvmPipeline, Machine, PassDump
from tessera.lowering.base.llvm_passes import traced
from tessera.lowering.base.passes import CANONICALIZE, run_upstream
from tessera.lowering.cpu.instruction_addresses import instruction_addresses
from tessera.lowering.cpu.masked_load_workaround import load_by_registers
from tessera.lowering.cpu.masked_store_workaround import store_lone_lanes
from tessera.lowering.cpu.origin_table import OriginTable

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

    addresses: of the instructions on rows of the assembly, see `instruction_addresses`
    passes: LLVM IR after each of LLVM's passes; none unless asked for
    """

    code: bytes
    llvm: str = ""
    assembly: str = ""
    addresses: Mapping[int, int] = field(default_factory=dict[int, int])
    passes: tuple[PassDump, ...] = ()


def lower_to_llvm(module: ir.Module) -> None:
    """Turn target IR into the LLVM dialect, in place."""
    run_upstream(_LOWERING, module)


def add_line_table(module: ir.Module, kernel: Span) -> OriginTable:
    """Let the locations of target IR reach assembly, as numbers of the table that is returned."""
    table = OriginTable(kernel)
    table.number_origins(module)
    run_upstream(_DEBUG, module)
    return table


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
    # Emitting changes a module, and the order of uses decides about instructions: a copy that keeps it is printed.
    copy = binding.parse_bitcode(llvm.as_bitcode())
    code, assembly = machine.emit_object(llvm), machine.emit_assembly(copy)
    return MachineCode(code, text, assembly, instruction_addresses(assembly, code, machine), passes)


@cache
def _machine(arch: str, features: str) -> tuple[Machine, binding.TargetMachine]:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # LLVM 22 asserts in this pass ("Getting value from an unknown LocationSize") on masked accesses of the stack; it
    # splits copies to avoid blocked store forwarding, which our code, with its own vectors, has nothing of.
    binding.set_option("tessera", "-x86-disable-avoid-SFB")
    binding.set_option("tessera", "-preserve-bc-uselistorder")
    host = host_target()
    cpu, features = (arch, features) if arch else (host.arch, host.features)
    described = Machine(binding.Target.from_default_triple().triple, cpu, features, _SPEED, "pic", "small")
    try:
        return described, described.make()
    except RuntimeError as error:
        msg = f"LLVM has no code generator for {arch or host.arch}: {error}"
        raise CompilerCrash(msg) from error
