"""Tile IR operation by operation, for targets whose lowering is a walk over it."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tessera.core.base.source import NOWHERE
from tessera.core.errors.base import TesseraError
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.location import spans


class Builder(Protocol):
    """An emitter of a target's code."""

    def located(self, location: ir.Location) -> AbstractContextManager[None]:
        """Give code emitted inside the `with` this location."""
        ...


def operations_of(block: ir.Block) -> list[AnyOp]:
    """Return the operations of a block but its terminator, in order."""
    return [view.operation for view in list(block.operations)[:-1]]


@contextmanager
def at_operation(build: Builder, op: AnyOp) -> Generator[None]:
    """Attribute code emitted inside the `with` to `op`, and errors without a place of their own too."""
    with build.located(op.location):
        try:
            yield
        except TesseraError as error:
            if error.span == NOWHERE:
                error.span = next(iter(spans(op.location)), NOWHERE)
            raise
