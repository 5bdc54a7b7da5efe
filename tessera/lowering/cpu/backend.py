"""Tile IR to an ELF object: the CPU target in order.

Tile IR -> (to_cpu) -> target IR: arith, math, vector, scf, llvm -> LLVM dialect -> LLVM IR -> machine code.
"""

from typing import Final

from tessera.core.compilation import LLVM_PASSES
from tessera.core.listing import Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.core.tile.listings import listing_of_mlir
from tessera.lowering.base.backends import Backend
from tessera.lowering.base.diagnostics import crash
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.passes import verify
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.cpu.assembly_listing import listing_of_assembly
from tessera.lowering.cpu.codegen import add_line_table, generate_code, lower_to_llvm
from tessera.lowering.cpu.llvm_listing import listing_of_llvm
from tessera.lowering.cpu.origin_table import OriginTable
from tessera.lowering.cpu.to_cpu import to_cpu
from tessera.lowering.tile.place_values import PlaceValues
from tessera.lowering.tile.round_operands import RoundOperands


def generate(module: ir.Module, program: Program, target: Target, observe: bool) -> TargetCode:
    """Compile a Tile IR module for `target` (an empty `arch` is the host); the module is left as it is.

    With `observe`, the listings `target`, `llvm` (optimized) and `asm` come along.  Raises `CompilerCrash` when MLIR
    or LLVM refuses what we made, which is our fault.
    """
    made = to_cpu(module, program, target.features or host_target().features)
    verify(made.module, "to-cpu")
    listings: list[Listing] = [listing_of_mlir(made.module, "target", "")] if observe else []
    table: OriginTable | None = None
    try:
        if observe:
            table = add_line_table(made.module, program.span)
        lower_to_llvm(made.module)
    except ir.MLIRError as error:
        raise crash(error, "cpu-to-llvm") from error
    observe_passes = observe and LLVM_PASSES in program.options
    code = generate_code(made.module, target, observe=observe, observe_passes=observe_passes)
    if table is not None:
        listings += [listing_of_llvm(dump.text, dump.name, table) for dump in code.passes]
        listings.append(listing_of_llvm(code.llvm, "", table))
        listings.append(listing_of_assembly(code.assembly, table, code.addresses))
    return TargetCode(code.code, made.entry, made.slots, made.launch, made.resources, made.bounded, tuple(listings))


# Factors are rounded once it is known which rows a group has; GPUs do it on the way to their tensor cores.
# PlaceValues last: it decides by who reads a value how often, which every pass above may change.
BACKEND: Final = Backend(generate, (RoundOperands(), PlaceValues()))
