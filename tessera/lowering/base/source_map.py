"""Map a line and column of the source to the operations that are written there."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePath

from tessera.core.base.source import Span
from tessera.core.listing import Line
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.location import origins


@dataclass(frozen=True)
class Places:
    """Operations and spans by (file, line), in the order of the kernel.

    known: what `line` has found at a file, line and column
    """

    ops: dict[tuple[str, int], dict[int, tuple[int, ...]]] = field(
        default_factory=dict[tuple[str, int], dict[int, tuple[int, ...]]]
    )
    spans: dict[tuple[str, int], dict[int, tuple[Span, ...]]] = field(
        default_factory=dict[tuple[str, int], dict[int, tuple[Span, ...]]]
    )
    known: dict[tuple[str, int, int], Line] = field(
        default_factory=dict[tuple[str, int, int], Line], compare=False, repr=False
    )

    @classmethod
    def of(cls, module: AnyOp) -> "Places":
        """Read the locations of a module of Target IR."""
        ops: dict[tuple[str, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        where: dict[tuple[str, int], dict[int, set[Span]]] = defaultdict(lambda: defaultdict(set))

        def visit(op: AnyOp) -> ir.WalkResult:
            numbers, found_spans = origins(op.location)
            for span in found_spans if numbers else ():
                ops[span.file, span.line][span.column].update(numbers)
                where[span.file, span.line][span.column].add(span)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        return cls(
            {key: {c: tuple(sorted(v)) for c, v in columns.items()} for key, columns in ops.items()},
            {key: {c: tuple(sorted(v)) for c, v in columns.items()} for key, columns in where.items()},
        )

    def line(self, text: str, file: str, line: int, column: int = 0) -> Line:
        """Make a line of text that came from this place; column 0 means anywhere on the line."""
        found = self.known.get((file, line, column))
        if found is None:
            found = self.known[file, line, column] = self._look_up(file, line, column)
        return Line(text, found.spans, found.ops)

    def _look_up(self, file: str, line: int, column: int) -> Line:
        key = self._key(file, line)
        if key is None:
            return Line("")
        columns, places = self.ops[key], self.spans[key]
        chosen = [column] if column in columns else sorted(columns)
        numbers = sorted({number for c in chosen for number in columns[c]})
        return Line("", tuple(sorted({s for c in chosen for s in places[c]})), tuple(numbers))

    def _key(self, file: str, line: int) -> tuple[str, int] | None:
        """Find the place to look up: by the base name where the file is unknown, as tools may add a folder."""
        if (file, line) in self.ops:
            return file, line
        same = [key for key in self.ops if key[1] == line and PurePath(key[0]).name == PurePath(file).name]
        return same[0] if same else None
