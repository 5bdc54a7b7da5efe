"""Tile IR to a cubin by way of CUDA Tile IR: the whole `cuda_tile` target in order.

Tile IR -> CUDA Tile program -> bytecode -> `tileiras` -> cubin.  There is no LLVM IR and no PTX on this way
that anybody could see.
"""

import math
from dataclasses import replace
from typing import Final

from tessera.core.artifact import Resources
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.targets import Architecture, Target
from tessera.core.tile.location import place
from tessera.lowering.base.backends import Backend
from tessera.lowering.base.ir_walk import LOOPS, kernel, operations
from tessera.lowering.base.launch_grid import launch_rule
from tessera.lowering.base.target_code import TargetCode
from tessera.lowering.cuda_tile.builder import TileBuilder
from tessera.lowering.cuda_tile.bytecode import Hints, encode
from tessera.lowering.cuda_tile.cubin import CubinUsage, read_usage
from tessera.lowering.cuda_tile.entry_point import EntryFrame
from tessera.lowering.cuda_tile.instructions import Block, Entry, instructions_of
from tessera.lowering.cuda_tile.text import target_listing
from tessera.lowering.cuda_tile.tileiras import assemble
from tessera.lowering.cuda_tile.to_cuda_tile import lower
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT, widen_operands

_FEW_WARPS, _MANY_WARPS = 4, 8
_ACCUMULATORS_OF_FOUR_WARPS = 128 * 128
"""A sum is a register, and a lane has 255: more than these would fill the registers of 4 warps."""
_LANES = 1
"""What a launch gives as the size of a block: the driver knows how many lanes a tile block has."""


def generate(module: ir.Module, program: Program, target: Target, observe: bool) -> TargetCode:
    """Compile a Tile IR module for `target`.

    With `observe`, the listing `target` comes along; `sass` is made of the cubin on demand.

    Raises:
        NotOnCudaTile: the kernel needs lanes, or something else that CUDA Tile IR cannot say.
        UnknownArchitecture: `target.arch` is none of ours.
        ToolMissing: no tileiras, or no cuda-tile, which writes its input.
        CompilerCrash: tileiras refuses the program, which is our fault.
    """
    chip = target.kind.architecture(target.arch)
    function = kernel(module)
    _widen_bytes(function, chip)
    frame, entry = program_of(function, program)
    code, usage = _machine_code(entry, program, chip.name)
    listings = (target_listing(entry, program),) if observe else ()
    # All that lies on the stack was spilled: a CUDA Tile kernel has no arrays of a lane's own.
    resources = Resources(
        shared_bytes=usage.shared_bytes, registers=usage.registers, spill_bytes=usage.stack_bytes,
        stack_bytes=usage.stack_bytes, lanes=usage.lanes,
    )  # fmt: skip
    bounded = not operations(function, *LOOPS)
    return TargetCode(code, entry.name, tuple(frame.slots), frame.rule, resources, bounded, listings)


def _widen_bytes(function: AnyOp, chip: Architecture) -> None:
    """Give products of floats of 8 bits factors of 16 where the machine, or an exact product, has none of 8."""
    for op in operations(function, "tessera.dot"):
        exact = bool(ir.BoolAttr(op.attributes["exact"]).value)
        if OPERAND_FORMAT in op.attributes and (exact or not chip.fp8_mma):
            widen_operands(op)


def _machine_code(entry: Entry, program: Program, chip: str) -> tuple[bytes, CubinUsage]:
    """Return the cubin, for the option `num_warps`, or else for 8 warps where 4 have too few registers."""
    wanted, blocks, resident = (_option(program, name) for name in ("num_warps", "cluster", "min_blocks_per_sm"))
    if wanted in (_FEW_WARPS, _MANY_WARPS):
        choices: tuple[int | None, ...] = (wanted,)
    else:
        choices = (_MANY_WARPS,) if _accumulators(entry.body) > _ACCUMULATORS_OF_FOUR_WARPS else (None, _MANY_WARPS)
    best: tuple[bytes, CubinUsage] | None = None
    for warps in choices:
        hints = Hints(warps, blocks, resident)
        code = assemble(encode(entry, program.source, program.span, hints), chip)
        usage = read_usage(code, entry.name)
        if best is None or usage.stack_bytes < best[1].stack_bytes:
            best = code, usage
        if not usage.stack_bytes:
            break
    if best is None:
        message = "no machine code was made"
        raise CompilerCrash(message, program.span)
    return best


def _option(program: Program, name: str) -> int | None:
    value = program.options.get(name)
    return value if isinstance(value, int) else None


def _accumulators(block: Block) -> int:
    """How many sums of products the kernel's lanes hold between them, counting each product of matrices once."""
    products = [op for op in instructions_of(block) if op.name == "mmaf"]
    made = {op.results[0] for op in products}
    return sum(math.prod(op.results[0].shape) for op in products if op.operands[2] not in made)


def program_of(function: AnyOp, program: Program) -> tuple[EntryFrame, Entry]:
    """Return the CUDA Tile program of a `func.func` of Tile IR, and what its parameters are.

    Raises:
        NotOnCudaTile: see `generate`.
    """
    name = ir.StringAttr(function.attributes["sym_name"]).value
    location, body = place(program.span), Block()
    rule = replace(launch_rule(function, program, _LANES), lanes_per_group=_LANES)
    build = TileBuilder(body, location, fast=bool(program.options.get("fast")))
    frame = EntryFrame(program, rule, build, body, blocked=bool(operations(function, "tessera.dot")))
    lower(frame, function)
    return frame, Entry(name, body, location)


BACKEND: Final = Backend(generate, fp8_products=True)
