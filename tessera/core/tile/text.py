"""Tile IR as text a person reads, each line linked to the user's source and to the kernel's operations.

    %acc_1 = tessera.dot %a, %b, %acc : tile<64x64xf32>

One way only: the machine's form is MLIR's own.  Values carry the user's names where there is one, constants stand
where they are used, slices read `%A[%m:+64, %k:+32]` (start and extent; a dropped axis has only its index).
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.listing import Line, Listing
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.tile import location
from tessera.core.tile.forms import FORMS, attributes_text, type_text
from tessera.core.tile.schedule_attributes import (
    CARRIED,
    COPIED,
    LAYOUT,
    PREFIX,
    RING,
    SCHEDULE,
    is_marked,
    schedule_of,
)

_INDENT: Final = "  "
_APART: Final = frozenset(("tessera.domain", SCHEDULE, PREFIX + LAYOUT, PREFIX + CARRIED))
"""Of functions and loops: the domain is the launcher's matter, the schedule is shown choice by choice, and what a loop
carries lies where what is computed of it does."""
_HIDDEN: Final = frozenset(("fastmath", "overflowFlags", "operandSegmentSizes"))


def listing_of_tile(module: ir.Module, stage: str, program: Program) -> Listing:
    """Print a Tile IR module as it stands after `stage`; names come from `program`."""
    printer = _Printer(program)
    for op in module.body.operations:
        printer.function(op.operation)
    return Listing("tile", stage, tuple(printer.lines))


class _Printer:
    """Prints one module.  `names` holds each value's text: `%name`, or the digits of a constant."""

    def __init__(self, program: Program) -> None:
        self.lines: list[Line] = []
        self.depth = 0
        self.names: dict[ir.Value, str] = {}
        self.inlined: dict[ir.Value, AnyOp] = {}  # constant -> its operation
        self.taken: dict[str, int] = {}
        self.hints = {n: tuple(v.name for v in op.results) for n, op in enumerate(program.body.walk())}
        self.last: dict[int, ir.Value] = {}  # identity -> the last operation that stands for it alone
        self.number = 0

    # -- structure ---------------------------------------------------------------------------------------------

    def function(self, function: AnyOp) -> None:
        """Print a `func.func`."""

        def visit(op: AnyOp) -> ir.WalkResult:
            found = location.identities(op.location)
            if len(found) == 1 and op.results and not op.name.startswith("scf."):
                self.last[found[0]] = op.results[0]
            return ir.WalkResult.ADVANCE

        function.walk(visit, ir.WalkOrder.PRE_ORDER)
        block = function.regions[0].blocks[0]
        facts = list(ir.ArrayAttr(function.attributes["arg_attrs"])) if "arg_attrs" in function.attributes else []
        parameters = [self._parameter(v, ir.DictAttr(f)) for v, f in zip(block.arguments, facts, strict=False)]
        name = ir.StringAttr(function.attributes["sym_name"]).value
        titles = [(k.removeprefix("tessera."), _mark(a)) for k, a in _marks(function.attributes)]
        if SCHEDULE in function.attributes:
            titles += schedule_of(function).marks()
        marks = [f" {title} {text}" for title, text in sorted(titles)]
        self._line(f"func @{name}({', '.join(parameters)}){''.join(marks)} {{", function)
        self._block(block)
        self._line("}", function)

    def _parameter(self, value: ir.Value, facts: ir.DictAttr) -> str:
        mutable = "mut " if "tessera.mutable" in facts and ir.BoolAttr(facts["tessera.mutable"]).value else ""
        extents = ir.ArrayAttr(facts["tessera.shape"]) if "tessera.shape" in facts else None
        shape = None if extents is None else [_mark(e) for e in extents]
        return f"{self._name(value, location.name_of(value.location))}: {mutable}{type_text(value.type, shape)}"

    def _block(self, block: ir.Block) -> None:
        self.depth += 1
        for op in block.operations:
            self._operation(op.operation)
        self.depth -= 1

    def _line(self, text: str, op: AnyOp, also: Sequence[AnyOp] = ()) -> None:
        places = [op.location, *(o.location for o in also)]
        named = [location.origins(p) for p in places]
        spans = dict.fromkeys(s for _, found in named for s in found)
        ops = dict.fromkeys(i for found, _ in named for i in found)
        self.lines.append(Line(_INDENT * self.depth + text, tuple(spans), tuple(ops)))

    # -- operations --------------------------------------------------------------------------------------------

    def _operation(self, op: AnyOp) -> None:
        if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr | ir.FloatAttr):
            self.names[op.results[0]] = _literal(op.attributes["value"])
            self.inlined[op.results[0]] = op
            return
        if op.name in ("func.return", "scf.yield") and not op.operands:
            return
        control = {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while}.get(op.name)
        if control is not None:
            control(op)
            return
        operands = [self.names[v] for v in op.operands]
        form = FORMS.get(op.name)
        said = form(op, operands) if form is not None else self._plain(op, operands)
        kinds = f" : {', '.join(type_text(r.type) for r in op.results)}" if op.results else ""
        self._line(f"{self._results(op)}{said}{kinds}{_decisions(op)}", op, self._constants(op))

    def _plain(self, op: AnyOp, operands: Sequence[str]) -> str:
        said = [n for n in op.attributes if n not in _HIDDEN and not n.startswith("tessera.")]
        shown = attributes_text({n: op.attributes[n] for n in said})
        return " ".join(part for part in (op.name, ", ".join(operands), shown) if part)

    def _for(self, op: AnyOp) -> None:
        lower, upper, step, *initial = (self.names[v] for v in op.operands)
        block = op.regions[0].blocks[0]
        titles = [location.name_of(a.location) for a in block.arguments]
        results = self._results(op, titles[1:])
        index, *carried = (self._name(a, t) for a, t in zip(block.arguments, titles, strict=True))
        bound = ", ".join(f"{a} = {i}" for a, i in zip(carried, initial, strict=True))
        notes = "".join(f" {n.removeprefix('tessera.')} {_mark(a)}" for n, a in _marks(op.attributes))
        head = f"{results}scf.for {index} = {lower} to {upper} step {step}{f' ({bound})' if bound else ''}{notes} {{"
        self._line(head, op, self._constants(op))
        self._block(block)
        self._line("}", op)

    def _if(self, op: AnyOp) -> None:
        self._line(
            f"{self._results(op, self._titles(op))}scf.if {self.names[op.operands[0]]} {{", op, self._constants(op)
        )
        self._block(op.regions[0].blocks[0])
        if len(op.regions[1].blocks):
            self._line("} else {", op)
            self._block(op.regions[1].blocks[0])
        self._line("}", op)

    def _while(self, op: AnyOp) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        initial = [self.names[v] for v in op.operands]
        results = self._results(op, [location.name_of(a.location) for a in after.arguments])
        carried = [self._name(a, location.name_of(a.location)) for a in before.arguments]
        bound = ", ".join(f"{a} = {i}" for a, i in zip(carried, initial, strict=True))
        self._line(f"{results}scf.while{f' ({bound})' if bound else ''} {{", op, self._constants(op))
        self._block(before)
        arguments = ", ".join(self._name(a, location.name_of(a.location)) for a in after.arguments)
        self._line(f"}} do{f' ({arguments})' if arguments else ''} {{", op)
        self._block(after)
        self._line("}", op)

    # -- names -------------------------------------------------------------------------------------------------

    def _results(self, op: AnyOp, titles: Sequence[str] = ()) -> str:
        if not op.results:
            return ""
        hints = list(titles) or self._hints(op)
        return ", ".join(self._name(v, h) for v, h in zip(op.results, hints, strict=True)) + " = "

    def _hints(self, op: AnyOp) -> list[str]:
        """The user's name for what `op` makes, when `op` is the last one that stands for that operation."""
        found = location.identities(op.location)
        if len(found) == 1 and found[0] in self.last and self.last[found[0]] == op.results[0]:
            names = self.hints.get(found[0], ())
            if len(names) == len(op.results) and all(names):
                return list(names)
        fallback = {"tessera.id": "of", "tessera.dim": "symbol"}.get(op.name)
        return [ir.StringAttr(op.attributes[fallback]).value if fallback else ""] * len(op.results)

    def _titles(self, op: AnyOp) -> Sequence[str]:
        """The user's names for the results of an `scf.if`."""
        found = location.identities(op.location)
        names = self.hints.get(found[0], ()) if found else ()
        return names if len(names) == len(op.results) else ()

    def _name(self, value: ir.Value, hint: str) -> str:
        hint = hint.lstrip("$")  # the frontend's mark on values the user did not name
        if not hint:
            text, self.number = str(self.number), self.number + 1
        else:
            count = self.taken.get(hint, 0)
            self.taken[hint] = count + 1
            text = f"{hint}_{count}" if count else hint
            if text != hint and text in self.taken:
                return self._name(value, text)
            self.taken.setdefault(text, 1)
        self.names[value] = f"%{text}"
        return self.names[value]

    def _constants(self, op: AnyOp) -> list[AnyOp]:
        return [self.inlined[v] for v in op.operands if v in self.inlined]


def _literal(attribute: ir.Attribute) -> str:
    if isinstance(attribute, ir.FloatAttr):
        return repr(float(attribute.value))
    if str(attribute.type) == "i1":
        return "true" if ir.BoolAttr(attribute).value else "false"
    return str(ir.IntegerAttr(attribute).value)


def _marks(attributes: ir.OpAttributeMap) -> list[tuple[str, ir.Attribute]]:
    """Our own attributes that say something: not empty ones, nor those of `_APART`."""
    names = sorted(n for n in attributes if n.startswith("tessera.") and n not in _APART)
    return [(n, attributes[n]) for n in names if str(attributes[n]) not in ("{}", '"range"')]


def _decisions(op: AnyOp) -> str:
    """What passes decided about `op`: ` scratch` (not virtual), ` replaces 0`, ..."""
    notes = ""
    for name in sorted(n for n in op.attributes if n.startswith("tessera.") and not _follows(op, n)):
        value, title = _mark(op.attributes[name]), name.removeprefix("tessera.")
        notes += "" if value == "virtual" else f" {value}" if title == "place" else f" {title} {value}"
    return notes


def _follows(op: AnyOp, name: str) -> bool:
    """Return whether an attribute says what is seen elsewhere: the layout of a constant, or of a copied operand."""
    views = op.name in ("arith.constant", "tessera.transpose")
    return name == PREFIX + LAYOUT and (views or is_marked(op, RING) or is_marked(op, COPIED))


def _mark(attribute: ir.Attribute) -> str:
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.IntegerAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return str(list(attribute))
    return str(attribute).replace(" : i64", "")
