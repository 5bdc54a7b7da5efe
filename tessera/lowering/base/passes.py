"""What a pass is, and how a list of them is run, checked and observed."""

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Final

from tessera.core.mlir import ir, passmanager
from tessera.core.program.program import Attribute
from tessera.lowering.base.diagnostics import crash

CANONICALIZE: Final = "disable-patterns={anonymous}::TruncFSIToFPToSIToFP,{anonymous}::TruncFUIToFPToUIToFP"
"""Options of every `canonicalize`: what makes one rounding of an integer's two, by way of a wider float, is out."""


@dataclass(frozen=True, slots=True)
class Pass(ABC):
    """One named rewrite of a module: valid IR goes in, valid IR comes out."""

    name: ClassVar[str]

    @property
    def options(self) -> dict[str, Attribute]:
        """The pass's fields that are numbers, truth values or texts."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, int | float | str)}

    @abstractmethod
    def run(self, module: ir.Module) -> None:
        """Rewrite `module` in place."""


Observer = Callable[[Pass, ir.Module], None]
"""Called after each pass with the pass and the module."""


def run_passes(
    passes: Sequence[Pass], module: ir.Module, observe: Observer | None = None
) -> tuple[tuple[str, float], ...]:
    """Run `passes` in order; gives each one's name and seconds.

    The module is verified once, after the last pass (a verifier written in Python costs more than most passes), or
    after each one when somebody observes.  Raises `CompilerCrash` where MLIR reports an error.
    """
    seconds: list[tuple[str, float]] = []
    for step in passes:
        start = time.perf_counter()
        try:
            step.run(module)
        except ir.MLIRError as error:
            raise crash(error, step.name) from error
        seconds.append((step.name, time.perf_counter() - start))
        if observe is not None:
            verify(module, step.name)
            observe(step, module)
    if observe is None and passes:
        verify(module, passes[-1].name)
    return tuple(seconds)


def verify(module: ir.Module, stage: str) -> None:
    """Raise `CompilerCrash`, naming `stage`, when `module` is not valid."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise crash(error, stage) from error


def run_upstream(pipeline: str, module: ir.Module) -> None:
    """Run a textual pipeline of upstream passes on `module`, without verifying between them."""
    _manager(ir.Context.current, pipeline).run(module.operation)


@functools.lru_cache(maxsize=8)
def _manager(_context: ir.Context, pipeline: str) -> passmanager.PassManager:
    """A pass manager is worth keeping: collecting the patterns of every dialect takes longer than applying them."""
    manager = passmanager.PassManager.parse(pipeline)
    manager.enable_verifier(False)
    return manager
