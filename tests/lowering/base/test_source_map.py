"""From a place of the source to the operations written there."""

from tessera.core.base.source import Span
from tessera.lowering.base.source_map import Places

HERE = Span("folder/cell.py", 3, 5, 3, 9)
PLACES = Places({("folder/cell.py", 3): {5: (1, 2), 8: (4,)}}, {("folder/cell.py", 3): {5: (HERE,), 8: ()}})


def test_a_column_has_its_own_operations():
    line = PLACES.line("add", "folder/cell.py", 3, 5)
    assert (line.text, line.spans, line.ops) == ("add", (HERE,), (1, 2))


def test_an_unknown_column_means_the_whole_line():
    assert PLACES.line("add", "folder/cell.py", 3, 7).ops == (1, 2, 4)


def test_the_base_name_is_enough():
    assert PLACES.line("add", "/elsewhere/cell.py", 3, 8).ops == (4,)


def test_another_line_has_none():
    assert PLACES.line("add", "folder/cell.py", 4).ops == ()
