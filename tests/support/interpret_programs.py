"""Programs written line by line, with the user's text: the spans of what `say` announces point into it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from support.builder import FILE, Builder
from tessera.core.base.source import Source, Span
from tessera.core.program.program import Attribute, Block, Domain, Op, Program, Value

Values = tuple[Value, ...]


class Writer(Builder):
    """A Builder whose operations lie on the line last said, and that knows `if` with results and `while`."""

    def __init__(self, name: str) -> None:
        self.text = [f"def {name}():"]
        super().__init__(name)

    def say(self, text: str) -> None:
        """The next operations are what `text` (one line, indented as in the cell) means."""
        self.text.append(text)

    @property
    def line(self) -> int:
        return len(self.text)

    @line.setter
    def line(self, _: int) -> None:
        """The line is where the text ends, however many operations a statement has."""

    def span(self) -> Span:
        text = self.text[-1]
        return Span(FILE, self.line, len(text) - len(text.lstrip()) + 1, self.line, len(text) + 1)

    def branch(self, condition: Value, yes: Callable[[], Values], no: Callable[[], Values] = tuple) -> Values:
        """An `if`; `yes` and `no` build the sides and return what they yield."""
        span = self.span()
        blocks = [self._block((), side) for side in (yes, no)]
        results = tuple(Value(value.type, value.name, span) for value in blocks[0].ops[-1].operands)
        self.blocks[-1].append(Op("if", (condition,), results, {}, tuple(blocks), span))
        return results

    def trips(
        self, bounds: Sequence[Value], carried: Values, body: Callable[[Value, Values], Values], kind: str = "range"
    ) -> Values:
        """A `for`; `body` gets the index and the carried values and returns the next ones."""
        span = self.span()
        arguments = (Value(bounds[0].type, "k", span), *(Value(v.type, v.name, span) for v in carried))
        block = self._block(arguments, lambda: body(arguments[0], arguments[1:]))
        results = tuple(Value(value.type, value.name, span) for value in carried)
        attributes = {"kind": kind, "prefetch": 0}
        self.blocks[-1].append(Op("for", (*bounds, *carried), results, attributes, (block,), span))
        return results

    def repeat(self, carried: Values, condition: Callable[[Values], Value], body: Callable[[Values], Values]) -> Values:
        """A `while`; the condition hands the carried values on as they are."""
        span = self.span()
        before = tuple(Value(value.type, value.name, span) for value in carried)
        after = tuple(Value(value.type, value.name, span) for value in carried)
        blocks = (
            self._block(before, lambda: (condition(before), *before)),
            self._block(after, lambda: body(after)),
        )
        results = tuple(Value(value.type, value.name, span) for value in carried)
        self.blocks[-1].append(Op("while", carried, results, {}, blocks, span))
        return results

    def _block(self, arguments: Values, build: Callable[[], Values]) -> Block:
        self.blocks.append([])
        yields = build()
        ops = self.blocks.pop()
        return Block(arguments, (*ops, Op("yield", tuple(yields), span=self.span())))

    def program(
        self, *, domain: Domain | None = None, group: tuple[int, ...] | None = None, **options: Attribute
    ) -> Program:
        """The kernel, with the text said so far."""
        program = super().program(domain=domain, group=group, **options)
        return replace(program, source=Source(FILE, "\n".join(self.text), label="Cell In[1]"))
