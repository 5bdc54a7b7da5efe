"""Define passes; run a list of them, verify what they leave, and report it to observers."""

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
        """Return the pass's fields that are numbers, truth values or texts."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, int | float | str)}

    @abstractmethod
    def run(self, module: ir.Module) -> None:
        """Rewrite `module` in place."""


Observer = Callable[[str, float], None]
"""Called after each pass with its name and the seconds that it took."""


def run_passes(
    passes: Sequence[Pass], module: ir.Module, observe: Observer | None = None
) -> tuple[tuple[str, float], ...]:
    """Run `passes` in order; return each one's name and seconds.

    The module is verified once, after the last pass (a verifier written in Python costs more than most passes), or
    after each one when there is an observer.

    Raises:
        CompilerCrash: MLIR reports an error.
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
            observe(*seconds[-1])
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
    """Keep pass managers: collecting the patterns of every dialect takes longer than applying them."""
    manager = passmanager.PassManager.parse(pipeline)
    manager.enable_verifier(False)
    return manager
