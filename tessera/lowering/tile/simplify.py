"""Fold constants, drop what is unused, and compute nothing twice."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import ir
from tessera.lowering.base.passes import CANONICALIZE, Pass, run_upstream

# Simplifying regions merges blocks, of which structured control flow has only one: half the time for nothing.
_PIPELINE: Final = f"builtin.module(canonicalize{{region-simplify=disabled {CANONICALIZE}}},cse)"


@dataclass(frozen=True, slots=True)
class Simplify(Pass):
    """Upstream's canonicalization and common subexpression elimination.

    before: `%a = arith.constant 64 : i64` in each of three loops, `%b = "tessera.dim"() {symbol = "n"}` twice
    after:  one of each, at the top
    keeps:  barriers, and accesses of memory that something may have written in between
    """

    name: ClassVar[str] = "tile-simplify"

    def run(self, module: ir.Module) -> None:
        """Simplify every function of `module`."""
        run_upstream(_PIPELINE, module)
