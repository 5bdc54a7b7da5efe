"""Declare what a target offers the compiler, and find it: each row of the table of targets names a module.

The compiler runs the passes that all targets share, then the target's own, and hands the Tile IR to the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.targets import Target, TargetKind
from tessera.lowering.base.passes import Pass
from tessera.lowering.base.target_code import TargetCode


class Generate(Protocol):
    """From Tile IR to code."""

    def __call__(self, module: ir.Module, program: Program, target: Target, observe: bool, /) -> TargetCode:
        """Compile a Tile IR module, which it may change; with `observe`, its own levels and passes come along.

        Raises the TesseraError of what the target cannot do, and CompilerCrash where the fault is ours.
        """
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """One target's part of the compiler.

    generate: compiles Tile IR behind all passes
    passes: the target's own passes on Tile IR, after those of all targets
    fp8_products: whether it takes matrix products of 8-bit floats, packed as bytes
    stages: passes on Tile IR that `generate` runs by itself: it goes on behind the one that `tessera.stage` names
    """

    generate: Generate
    passes: Sequence[Pass] = ()
    fp8_products: bool = False
    stages: Sequence[str] = ()


def backend_of(kind: TargetKind) -> Backend:
    """Return `BACKEND` of the module that a row of the table names: a target that is not used is never imported.

    Raises CompilerCrash for a target that nothing is compiled for.
    """
    if not kind.backend:
        raise CompilerCrash(f"no compiler for the target '{kind.name}'")
    backend: Backend = import_module(kind.backend).BACKEND
    return backend
