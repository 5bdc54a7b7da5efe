"""Print the records of Tile IR as text that a person reads, each line linked to the source and to its operation.

    %acc_1 = tessera.dot %a, %b, %acc : tile<64x64xf32>

One way only: the machine's form is MLIR's own.  Values carry the user's names where there is one, constants stand
where they are used, slices read `%A[%m:+64, %k:+32]` (start and extent; a dropped axis has only its index).  MLIR is
not needed: a stage travels, and is kept, as its records, and becomes text when it is read.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.listing import Line
from tessera.core.record import AttributeData, OpRecord, ValueRecord, Verbatim
from tessera.core.schedule.tile_schedule import CARRIED, COPIED, LAYOUT, PIPELINE, PREFIX, SCHEDULE, TileSchedule
from tessera.core.tile.forms import FORMS, attributes_text, numbers_of

_INDENT: Final = "  "
_PRINTED_ELSEWHERE: Final = frozenset(("tessera.domain", SCHEDULE, PREFIX + LAYOUT, PREFIX + CARRIED))
"""Of functions and loops: the domain is the launcher's matter, the schedule is shown choice by choice, and what a loop
carries lies where what is computed of it does."""
_HIDDEN: Final = frozenset(("fastmath", "overflowFlags", "operandSegmentSizes"))


def lines_of_tile(records: Sequence[OpRecord]) -> tuple[Line, ...]:
    """Print the operations of a Tile IR module."""
    printer = _Printer(records)
    for function in printer.inside["", 0]:
        printer.function(function)
    return tuple(printer.lines)


class _Printer:
    """Prints one module.  `names` holds each value's text: `%name`, or the digits of a constant."""

    def __init__(self, records: Sequence[OpRecord]) -> None:
        self.lines: list[Line] = []
        self.depth = 0
        self.names: dict[str, str] = {}
        self.inlined: dict[str, OpRecord] = {}  # constant -> its operation
        self.taken: dict[str, int] = {}
        self.inside: dict[tuple[str, int], list[OpRecord]] = defaultdict(list)
        self.number = 0
        for record in records:
            self.inside[record.parent, record.region].append(record)

    # -- structure ---------------------------------------------------------------------------------------------

    def function(self, function: OpRecord) -> None:
        """Print a `func.func`."""
        written = numbers_of(function, "mutable")
        parameters = [
            f"{self._name(v)}: {'mut ' if number in written else ''}{v.type}"
            for number, v in enumerate(function.arguments[0])
        ]
        titles = [(k.removeprefix(PREFIX), _mark(a)) for k, a in _marks(function.attributes)]
        marks = [f" {title} {text}" for title, text in sorted([*titles, *_schedule(function).marks()])]
        head = f"func @{function.attributes['sym_name']}({', '.join(parameters)}){''.join(marks)} {{"
        self._line(head, function)
        self._block(function, 0)
        self._line("}", function)

    def _block(self, op: OpRecord, region: int) -> None:
        self.depth += 1
        for inner in self.inside[op.id, region]:
            self._operation(inner)
        self.depth -= 1

    def _line(self, text: str, op: OpRecord, also: Sequence[OpRecord] = ()) -> None:
        spans, numbers = op.spans, op.numbers
        if also:
            spans = tuple(dict.fromkeys(span for one in (op, *also) for span in one.spans))
            numbers = tuple(dict.fromkeys(number for one in (op, *also) for number in one.numbers))
        self.lines.append(Line(_INDENT * self.depth + text, spans, numbers, op.id))

    # -- operations --------------------------------------------------------------------------------------------

    def _operation(self, op: OpRecord) -> None:
        if op.name == "arith.constant" and _is_number(op.attributes["value"]):
            value = op.results[0].id
            self.names[value] = repr(op.attributes["value"])
            self.inlined[value] = op
            return
        if op.name in ("func.return", "scf.yield") and not op.operands:
            return
        control = {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while}.get(op.name)
        if control is not None:
            control(op)
            return
        operands = [self.names[v] for v in op.operands]
        form = FORMS.get(op.name)
        said = form(op, operands) if form is not None else _plain(op, operands)
        kinds = f" : {', '.join(r.type for r in op.results)}" if op.results else ""
        self._line(f"{self._results(op)}{said}{kinds}{_decisions(op)}", op, self._constants(op))

    def _for(self, op: OpRecord) -> None:
        lower, upper, step, *initial = (self.names[v] for v in op.operands)
        results = self._results(op)
        index, *carried = map(self._name, op.arguments[0])
        bound = ", ".join(f"{a} = {i}" for a, i in zip(carried, initial, strict=True))
        notes = "".join(f" {n.removeprefix('tessera.')} {_mark(a)}" for n, a in _marks(op.attributes))
        head = f"{results}scf.for {index} = {lower} to {upper} step {step}{f' ({bound})' if bound else ''}{notes} {{"
        self._line(head, op, self._constants(op))
        self._block(op, 0)
        self._line("}", op)

    def _if(self, op: OpRecord) -> None:
        self._line(f"{self._results(op)}scf.if {self.names[op.operands[0]]} {{", op, self._constants(op))
        self._block(op, 0)
        if len(op.arguments) > 1:
            self._line("} else {", op)
            self._block(op, 1)
        self._line("}", op)

    def _while(self, op: OpRecord) -> None:
        before, after = op.arguments
        initial = [self.names[v] for v in op.operands]
        results = self._results(op)
        bound = ", ".join(f"{a} = {i}" for a, i in zip(map(self._name, before), initial, strict=True))
        self._line(f"{results}scf.while{f' ({bound})' if bound else ''} {{", op, self._constants(op))
        self._block(op, 0)
        arguments = ", ".join(map(self._name, after))
        self._line(f"}} do{f' ({arguments})' if arguments else ''} {{", op)
        self._block(op, 1)
        self._line("}", op)

    # -- names -------------------------------------------------------------------------------------------------

    def _results(self, op: OpRecord) -> str:
        return ", ".join(map(self._name, op.results)) + " = " if op.results else ""

    def _name(self, value: ValueRecord) -> str:
        """Give a value its name: the user's, with a number where that is taken, or a number."""
        hint, text = value.name, value.name
        if not hint:
            text, self.number = str(self.number), self.number + 1
        else:
            while True:
                count = self.taken.get(hint, 0)
                self.taken[hint] = count + 1
                text = f"{hint}_{count}" if count else hint
                if text == hint or text not in self.taken:
                    break
                hint = text
            self.taken.setdefault(text, 1)
        self.names[value.id] = f"%{text}"
        return self.names[value.id]

    def _constants(self, op: OpRecord) -> list[OpRecord]:
        return [self.inlined[v] for v in op.operands if v in self.inlined]


def _plain(op: OpRecord, operands: Sequence[str]) -> str:
    said = {n: a for n, a in op.attributes.items() if n not in _HIDDEN and not n.startswith("tessera.")}
    return " ".join(part for part in (op.name, ", ".join(operands), attributes_text(said)) if part)


def _is_number(value: AttributeData) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _marks(attributes: Mapping[str, AttributeData]) -> list[tuple[str, AttributeData]]:
    """Our own attributes that say something: not empty ones, nor those of `_PRINTED_ELSEWHERE`."""
    names = sorted(n for n in attributes if n.startswith("tessera.") and n not in _PRINTED_ELSEWHERE)
    return [(n, attributes[n]) for n in names if attributes[n] not in (Verbatim("{}"), "range")]


def _decisions(op: OpRecord) -> str:
    """Return what passes decided about `op`: ` scratch` (not virtual), ` replaces 0`, ..."""
    notes = ""
    for name in sorted(n for n in op.attributes if n.startswith("tessera.") and not _follows(op, n)):
        value, title = _mark(op.attributes[name]), name.removeprefix("tessera.")
        notes += "" if value == "virtual" else f" {value}" if title == "place" else f" {title} {value}"
    return notes


def _follows(op: OpRecord, name: str) -> bool:
    """Return whether an attribute says what is seen elsewhere: the layout of a constant, or of a copied operand."""
    views = op.name in ("arith.constant", "tessera.transpose")
    return name == PREFIX + LAYOUT and (views or PREFIX + PIPELINE in op.attributes or PREFIX + COPIED in op.attributes)


def _schedule(function: OpRecord) -> TileSchedule:
    found = function.attributes.get(SCHEDULE, ())
    entries = found if isinstance(found, tuple) else ()
    return TileSchedule.parse({str(entry[0]): entry[1] for entry in entries if isinstance(entry, tuple)})


def _mark(attribute: AttributeData) -> str:
    match attribute:
        case Verbatim():
            return attribute.text.replace(" : i64", "")
        case bool():
            return str(attribute).lower()
        case tuple():
            return str(list(attribute))
        case _:
            return str(attribute)
