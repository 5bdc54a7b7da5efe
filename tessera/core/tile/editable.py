"""Tile IR that can be edited and compiled onward: MLIR's own text of a stage, and the module that such a text is.

    module attributes {tessera.stage = "cuda-fit"} {
      func.func @gemm(...) attributes {tessera.schedule = {num_warps = 8 : i64, stages = 4 : i64, ...}} {
        %4 = "tessera.load"(%arg0, %2, %3) {..., tessera.pipeline = 0 : i64} : ...

Operations of a module that was read have the places of the text as their locations, so that messages point there.
"""

from typing import Final

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.compilation import AS_MLIR
from tessera.core.errors.catalog import BadTileIR
from tessera.core.listing import Line, Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.tile.location import spans
from tessera.core.tile.records import listing_of_tile

STAGE: Final = "tessera.stage"
"""Of the module: the pass behind which it was printed."""
FILE: Final = "tile.mlir"
_FROM_TEXT: Final = "-"
"""What MLIR calls the file of a text that it is given."""


def stage_listing(module: ir.Module, stage: str, program: Program) -> Listing:
    """Return a module as it stands behind `stage`: for a person to read, or (see `AS_MLIR`) as it can be read again."""
    if AS_MLIR not in program.options:
        return listing_of_tile(module, stage, program)
    module.operation.attributes[STAGE] = ir.StringAttr.get(stage)
    text = str(module).rstrip("\n")
    del module.operation.attributes[STAGE]
    return Listing("tile", stage, tuple(Line(line) for line in text.split("\n")))


def read_stage(text: str) -> tuple[ir.Module, str]:
    """Return the module that a text is, and the stage behind which it was printed.

    Raises BadTileIR, which points into the text, where it is not what `stage_listing` wrote, or not valid.
    """
    try:
        module = ir.Module.parse(text)
    except ir.MLIRError as error:
        diagnostics = list(error.error_diagnostics)
        message = str(diagnostics[0].message) if diagnostics else str(error)
        place = next(iter(spans(diagnostics[0].location)), NOWHERE) if diagnostics else NOWHERE
        raise bad_ir(text, message, place, "print the stage again, and change a little at a time") from error
    if STAGE not in module.operation.attributes:
        missing = f"the module has no attribute `{STAGE}`, which says behind which pass it stands"
        raise bad_ir(text, missing, Span(FILE, 1, 1, 1, 7), "begin with the text that `compiled.mlir(stage)` gives")
    stage = str(ir.StringAttr(module.operation.attributes[STAGE]).value)
    del module.operation.attributes[STAGE]

    def relocate(op: ir.Operation) -> ir.WalkResult:
        found = next(iter(spans(op.location)), NOWHERE)
        if found.file == _FROM_TEXT:
            op.location = ir.Location.file(FILE, found.line, found.column)
        return ir.WalkResult.ADVANCE

    module.operation.walk(relocate)
    return module, stage


def function_place(text: str) -> Span:
    """Return where the function of a module stands in its text."""
    for number, line in enumerate(text.split("\n"), start=1):
        if "func.func" in line:
            column = line.index("func.func") + 1
            return Span(FILE, number, column, number, column + len("func.func"))
    return Span(FILE, 1, 1, 1, 1)


def bad_ir(text: str, message: str, span: Span, hint: str) -> BadTileIR:
    """Return the mistake at a place of a text of Tile IR."""
    where = NOWHERE if span == NOWHERE else Span(FILE, span.line, span.column, span.end_line, span.end_column)
    error = BadTileIR(message, where, hint)
    error.with_source(Source(FILE, text))
    return error
