"""List a module of upstream MLIR in its own syntax, each line linked to what its operation came from."""

from tessera.core.listing import Line, Listing
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile import location


def listing_of_mlir(module: ir.Module, level: str, stage: str) -> Listing:
    """Print `module` as MLIR does, without locations, each line linked to what its operation came from.

    The printed text is parsed again: the locations of that copy are the lines.
    """
    text = str(module.operation.get_asm(enable_debug_info=False))
    lines = [Line(line) for line in text.rstrip("\n").split("\n")]
    copy = ir.Module.parse(text)
    for op, printed in zip(_walk(module), _walk(copy), strict=True):
        if isinstance(printed.location, ir.FileLineColLoc):
            number = int(printed.location.start_line) - 1
            lines[number] = _linked(lines[number], op.location)
    return Listing(level, stage, tuple(lines))


def _walk(module: ir.Module) -> list[AnyOp]:
    found: list[AnyOp] = []

    def visit(op: AnyOp) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _linked(line: Line, place: ir.Location) -> Line:
    spans = dict.fromkeys((*line.spans, *location.spans(place)))
    ops = dict.fromkeys((*line.ops, *location.identities(place)))
    return Line(line.text, tuple(spans), tuple(ops))
