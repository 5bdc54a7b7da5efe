"""Compile a Program for this machine and run it: what the tests of the CPU target start from."""

import hashlib
from collections.abc import Sequence
from typing import Any

from tessera.core.artifact import Artifact, Binding, Resources
from tessera.core.program.program import Program
from tessera.core.targets import CPU, TARGETS
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.passes import run_passes
from tessera.lowering.cpu.codegen import generate_code, lower_to_llvm
from tessera.lowering.cpu.to_cpu import TargetModule, to_cpu
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.to_tile import to_tile
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.cpu import CpuLauncher

SMALL = "+sse2"  # no masks at all
LARGE = "+avx,+avx2,+avx512f,+avx512bw"  # the form for AVX-512; LLVM makes of it what this machine has


def target_module(program: Program, *, passes: bool = True, features: str | None = None) -> TargetModule:
    """Target IR of `program`; call it inside `shared_context()`."""
    module = to_tile(program)
    if passes:
        run_passes(tile_passes(TARGETS["cpu"]), module)
    return to_cpu(module, program, host_target().features if features is None else features)


def compiled(program: Program, *, passes: bool = True, features: str | None = None) -> Artifact:
    """The artifact of `program`, lowered for `features` and compiled for this machine."""
    with shared_context():
        made = target_module(program, passes=passes, features=features)
        made.module.operation.verify()
        lower_to_llvm(made.module)
        code = generate_code(made.module, CPU, observe=False).code
    bindings = tuple(Binding(p.name, p.value.type, p.mutable, p.span) for p in program.parameters)
    symbols = tuple((s.name, s.parameter, s.axis, s.scale) for s in program.symbols)
    rest: tuple[Any, ...] = (made.slots, made.launch, made.resources, made.bounded, program.source, program.span)
    return Artifact(hashlib.sha256(code).hexdigest(), program.name, CPU, code, made.entry, bindings, symbols, *rest)


def run(
    program: Program, *arguments: object, grid: Sequence[int] | None = None, features: str | None = None
) -> Resources:
    """Compile and run `program` on `arguments`, in place."""
    artifact = compiled(program, features=features)
    CpuLauncher(artifact)(*arguments, grid=None if grid is None else Grid(tuple(grid)))
    return artifact.resources
