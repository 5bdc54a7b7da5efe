"""What stands beside the lines of a pane."""

from tessera.viz.ir.details import NOTHING, Cell, Documentation, details_of, make_column
from tessera.viz.ir.panes import Pane, ViewLine

ADD = ("add", "adds")


def document(_: str, line: str) -> tuple[str, str] | None:
    return ADD if "add" in line else None


def test_equal_cells_of_a_column_are_kept_once():
    column = make_column("live", "live registers", 4, [Cell("2", "two"), None, Cell("2", "two"), Cell("3", "three")])
    assert column.cells == (0, NOTHING, 0, 1)
    assert column.of_line(2) == Cell("2", "two")
    assert column.of_line(1) is None


def test_documentation_is_numbered_as_it_occurs():
    known = Documentation()
    assert [known.place(entry) for entry in (ADD, None, ("mul", "multiplies"), ADD)] == [0, NOTHING, 1, 0]


def test_panes_with_one_text_share_their_details():
    lines = tuple(ViewLine(text) for text in ("f {", "  add", "}"))
    panes = [Pane("tile", "a", lines), Pane("tile", "b", lines), Pane("tile", "c", lines[:2])]
    columns = {2: (make_column("live", "live registers", 4, [None, Cell("1", "one")]),)}
    first, second, third = details_of(panes, columns, document, known := Documentation())
    assert first is second
    assert [(fold.head, fold.last) for fold in first.folds] == [(0, 2)]
    assert first.docs == (NOTHING, 0, NOTHING)
    assert list(known.places) == [ADD]
    assert third.columns == columns[2]
    assert third.folds == ()
