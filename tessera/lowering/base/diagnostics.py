"""Turn MLIR's diagnostics into errors that point into the user's text."""

from tessera.core.base.source import NOWHERE, Note, Span
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.tile.location import spans


def crash(error: ir.MLIRError, stage: str) -> CompilerCrash:
    """Make the `CompilerCrash` for an `ir.MLIRError` raised in `stage`; every diagnostic and note keeps its place."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return CompilerCrash(f"{stage}: {error}")
    first, *rest = diagnostics
    notes = [_note(d) for d in [*first.notes, *rest]]
    return CompilerCrash(f"{stage}: {first.message}", _place(first), notes=notes)


def _note(diagnostic: ir.DiagnosticInfo) -> Note:
    return Note(str(diagnostic.message), _place(diagnostic))


def _place(diagnostic: ir.DiagnosticInfo) -> Span:
    return next(iter(spans(diagnostic.location)), NOWHERE)
