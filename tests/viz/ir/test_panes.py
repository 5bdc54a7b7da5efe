"""Panes: texts, links, and the passes that made them."""

from support.compilations import saxpy_compilation
from tessera.core.base.source import Span
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.viz.ir.panes import Ghost, PassInfo, make_panes

HERE, ELSEWHERE = Span("cell.py", 7, 3, 7, 9), Span("lib.py", 2, 1, 2, 4)


def test_a_pane_knows_its_pass_with_its_time_also_where_it_changed_nothing():
    compilation = saxpy_compilation()
    passes = (
        *compilation.passes,
        PassRan("saxpy", "cpu", "target", "generate-cpu", 0.5, True, {"vector": 16}),
        PassRan("saxpy", "cpu", "tile", "tile-nothing", 0.25, False),
    )
    same = Listing("tile", "tile-nothing", compilation.listings[2].given)
    listings = (*compilation.listings[:3], same, *compilation.listings[4:])
    panes = {(pane.level, pane.stage): pane for pane in make_panes(listings, "cell.py", passes)}
    assert panes["tile", "build"].ran is None
    assert panes["tile", "tile-simplify"].ran == PassInfo("tile-simplify", 0.001, True)
    assert panes["tile", "tile-nothing"].ran == PassInfo("tile-nothing", 0.25, False)
    assert not any(panes["tile", "tile-nothing"].changes.values())
    assert panes["target", ""].ran == PassInfo("generate-cpu", 0.5, True, {"vector": 16})


def test_lines_are_linked_to_places_of_the_users_file_only():
    (pane,) = make_panes([Listing("tile", "", (Line("add", (HERE, ELSEWHERE, HERE), (4,), "4.1"),))], "cell.py")
    (line,) = pane.lines
    assert (line.sources, line.spans, line.ops, line.record) == ((7,), (HERE,), (4,), "4.1")


def test_what_a_stage_took_away_stands_where_it_was():
    old = Listing("tile", "a", (Line("one", (), (1,)), Line("two", (), (2,)), Line("three", (), (3,))))
    new = Listing("tile", "b", (Line("one", (), (1,)), Line("three", (), (3,))))
    _, pane = make_panes([old, new], "cell.py")
    assert pane.ghosts == (Ghost(1, "two"),)
    assert pane.changes == {"new": 0, "changed": 0, "moved": 0, "gone": 1}


def test_levels_are_not_compared_with_each_other():
    _, pane = make_panes([Listing("tile", "", (Line("a"),)), Listing("target", "", (Line("b"),))], "cell.py")
    assert not any(pane.changes.values())
