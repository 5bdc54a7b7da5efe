"""A CUDA Tile program as text a person reads, each line linked to the user's source and to the kernel's operations.

    %acc_1 = mmaf %a, %b, %acc : tile<64x64xf32>

It follows the notation of CUDA Tile IR, with the user's names, and constants where they are used.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.listing import Line, Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.tile.location import identities, spans
from tessera.lowering.cuda_tile.instructions import (
    AttributeValue,
    Block,
    Entry,
    Instruction,
    TokenType,
    Value,
    instructions_of,
)

_INDENT: Final = "  "
# What goes without saying: every float operation rounds to nearest even, every access is weak.
_DEFAULTS: Final[Mapping[str, object]] = {
    "rounding_mode": "nearest_even", "flush_to_zero": False, "overflow": "none", "saturating": False, "fast_acc": False,
}  # fmt: skip
_HIDDEN: Final = frozenset(("masked", "ordered", "extents", "number", "identity", "dim"))
_BARE: Final = frozenset(("rounding_mode", "rounding", "signedness", "signedness_lhs", "signedness_rhs",
                          "comparison_predicate", "comparison_ordering", "overflow"))  # fmt: skip


def target_listing(entry: Entry, program: Program) -> Listing:
    """Print a kernel; names come from `program` where an instruction makes one of its values."""
    printer = _Printer(entry, program)
    printer.entry(entry)
    return Listing("target", "", tuple(printer.lines))


class _Printer:
    """Prints one kernel; `names` holds the text of each value."""

    def __init__(self, entry: Entry, program: Program) -> None:
        self.lines: list[Line] = []
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}
        self.number = 0
        self.hints = {n: op.results[0].name for n, op in enumerate(program.body.walk()) if len(op.results) == 1}
        self.last: dict[int, Instruction] = {}
        self._remember(entry.body)

    def _remember(self, block: Block) -> None:
        """Note the last instruction that stands for each operation: its result is what the user named."""
        for op in instructions_of(block):
            found = identities(op.location)
            named = op.results and op.name != "constant" and not isinstance(op.results[0].type, TokenType)
            if len(found) == 1 and named:
                self.last[found[0]] = op

    # -- structure ---------------------------------------------------------------------------------------------

    def entry(self, entry: Entry) -> None:
        parameters = ", ".join(f"{self._define(v)}: {v.type}" for v in entry.body.arguments)
        self._line(f"entry @{entry.name}({parameters}) {{", 0, entry.location)
        self._block(entry.body, 1)
        self._line("}", 0, None)

    def _block(self, block: Block, depth: int) -> None:
        for op in block.instructions:
            if op.name == "constant":
                self.names[op.results[0]] = _number(op.number("number"))
            elif op.name == "reduce":
                self._reduce(op, depth)
            elif op.blocks:
                self._region(op, depth)
            elif not (op.name in ("yield", "continue", "return") and not op.operands):
                self._line(self._instruction(op), depth, op.location)

    def _region(self, op: Instruction, depth: int) -> None:
        results = self._results(op)
        tail = " {"
        if op.name == "for":
            index, *carried = op.blocks[0].arguments
            lower, upper, step = (self._use(v) for v in op.operands[:3])
            head = f"for {self._define(index)} in ({lower} to {upper}, step {step})"
            head += self._carried(carried, op.operands[3:])
        elif op.name == "loop":
            head = "loop" + self._carried(op.blocks[0].arguments, op.operands)
        else:
            head = f"if {self._use(op.operands[0])}"
        self._line(f"{results}{head}{tail}", depth, op.location)
        self._block(op.blocks[0], depth + 1)
        for block in op.blocks[1:]:
            if any(inner.operands or inner.name != "yield" for inner in block.instructions):
                self._line("} else {", depth, None)
                self._block(block, depth + 1)
        self._line("}", depth, None)

    def _carried(self, arguments: Sequence[Value], initial: Sequence[Value]) -> str:
        pairs = [(self._use(value), self._define(argument)) for argument, value in zip(arguments, initial, strict=True)]
        return f" iter_values({', '.join(f'{name} = {value}' for value, name in pairs)})" if pairs else ""

    def _reduce(self, op: Instruction, depth: int) -> None:
        """Print a reduction; its body is one operation, whose name says enough."""
        inner = op.blocks[0].instructions[0]
        marks = self._marks(inner.attributes)
        dim, identity = op.attributes["dim"], _number(op.number("identity"))
        text = f"reduce {inner.name}{marks} {self._use(op.operands[0])} dim={dim} identity={identity}"
        self._line(f"{self._results(op)}{text} : {op.results[0].type}", depth, op.location)

    # -- single instructions -----------------------------------------------------------------------------------

    def _instruction(self, op: Instruction) -> str:
        operands = ", ".join(self._use(v) for v in op.operands)
        kind = next((str(v.type) for v in op.results if not isinstance(v.type, TokenType)), "")
        if not kind and op.name.startswith("store"):
            kind = str(op.operands[0 if op.name == "store_view_tko" else 1].type)
        marks = self._marks(op.attributes)
        return f"{self._results(op)}{op.name}{marks}{' ' + operands if operands else ''}{' : ' + kind if kind else ''}"

    def _marks(self, attributes: Mapping[str, AttributeValue]) -> str:
        words: list[str] = []
        for name, value in attributes.items():
            if name in _HIDDEN or _DEFAULTS.get(name, self) == value:
                continue
            if value is True:
                words.append(name)
            elif name == "bounded" and isinstance(value, tuple):
                words.append(f"bounded={value[0]}..{'' if value[1] is None else value[1]}")
            elif isinstance(value, tuple):
                words.append(f"{name}=[{', '.join(map(str, value))}]")
            elif value is not False:
                words.append(str(value) if name in _BARE else f"{name}={value}")
        return "".join(f" {word}" for word in words)

    def _results(self, op: Instruction) -> str:
        hint = ""
        found = identities(op.location)
        if len(found) == 1 and self.last.get(found[0]) is op:
            hint = self.hints.get(found[0], "")
        names = [self._define(v, hint if number == 0 else "") for number, v in enumerate(op.results)]
        return f"{', '.join(names)} = " if names else ""

    def _define(self, value: Value, hint: str = "") -> str:
        name = value.name or hint or ("token" if isinstance(value.type, TokenType) else "")
        if name:
            used = self.taken.get(name, 0)
            self.taken[name] = used + 1
            text = f"%{name}_{used}" if used else f"%{name}"
        else:
            text, self.number = f"%{self.number}", self.number + 1
        self.names[value] = text
        return text

    def _use(self, value: Value) -> str:
        return self.names[value]

    def _line(self, text: str, depth: int, location: ir.Location | None) -> None:
        linked = location is not None
        places, numbers = (spans(location), identities(location)) if linked else ((), ())
        self.lines.append(Line(_INDENT * depth + text, places, numbers))


def _number(number: bool | float) -> str:
    if isinstance(number, bool):
        return "true" if number else "false"
    return repr(number)
