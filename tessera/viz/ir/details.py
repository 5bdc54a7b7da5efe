"""Details beside the lines of a pane: folds, branches, documentation, and columns of figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.viz.ir.panes import Pane
from tessera.viz.ir.text_structure import Branch, Fold, branches, folds, quiet_lines

NOTHING: Final = -1
"""In place of an index: a line has no cell, or no documentation."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a column beside a line: in short, in words, and as a share (0 to 1) for a bar, -1 for none."""

    text: str
    told: str
    bar: float = -1.0


@dataclass(frozen=True, slots=True)
class Column:
    """A column beside the text.

    name: for its class and its switch; title: in words; width: in characters
    cells: for each line an index into `kinds`, or NOTHING
    """

    name: str
    title: str
    width: int
    cells: tuple[int, ...]
    kinds: tuple[Cell, ...]

    def of_line(self, line: int) -> Cell | None:
        """Return the cell of a line."""
        return self.kinds[self.cells[line]] if self.cells[line] != NOTHING else None


def make_column(name: str, title: str, width: int, cells: Sequence[Cell | None]) -> Column:
    """Make a column of the cells of all lines."""
    kinds: dict[Cell, int] = {}
    numbers = tuple(NOTHING if cell is None else kinds.setdefault(cell, len(kinds)) for cell in cells)
    return Column(name, title, width, numbers, tuple(kinds))


@dataclass(frozen=True, slots=True)
class PaneDetails:
    """Everything that stands beside the text of one pane.

    quiet: lines that the filter leaves out; docs: for each line the place of its documentation, or NOTHING
    """

    quiet: tuple[int, ...] = ()
    folds: tuple[Fold, ...] = ()
    branches: tuple[Branch, ...] = ()
    columns: tuple[Column, ...] = ()
    docs: tuple[int, ...] = ()


@dataclass(slots=True)
class Documentation:
    """The texts on the operations that occur, each once: its name and what it does."""

    places: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def place(self, entry: tuple[str, str] | None) -> int:
        """Return the place of a text, which is added where it is new."""
        return NOTHING if entry is None else self.places.setdefault(entry, len(self.places))


Document = Callable[[str, str], tuple[str, str] | None]
"""Returns the name and the documentation of the operation on a line of a level."""


def details_of(
    panes: Sequence[Pane], columns: Mapping[int, tuple[Column, ...]], document: Document, known: Documentation
) -> tuple[PaneDetails, ...]:
    """Return the details of each pane; `columns` by the pane's number, `known` takes the documentation."""
    made: dict[tuple[str, ...], PaneDetails] = {}
    found: list[PaneDetails] = []
    for number, pane in enumerate(panes):
        lines = [line.text for line in pane.lines]
        key = (pane.level, *lines)
        if key not in made or number in columns:
            made[key] = PaneDetails(
                quiet_lines(pane.level, lines), folds(pane.level, lines), branches(pane.level, lines),
                columns.get(number, ()), tuple(known.place(document(pane.level, line)) for line in lines),
            )  # fmt: skip
        found.append(made[key])
    return tuple(found)
