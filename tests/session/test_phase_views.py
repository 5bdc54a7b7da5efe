"""What the views show of several phases."""

from tessera.core.base.source import Source, Span
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Block, Domain, Op, Program
from tessera.session.phase_views import joined_listings


def phase(line: int) -> Program:
    span = Span("cell", line, 1, line, 5)
    body = Block((), (Op("for", span=span), Op("write", span=span)))
    return Program("k", (), body, (), Domain("single"), source=Source("cell", "a\nb\nc"), span=Span("cell", 1, 1, 1, 5))


def test_phases_follow_each_other_and_operations_keep_numbers_of_their_own():
    spans = [(Span("cell", n, 1, n, 2),) for n in (1, 2, 3)]
    first = (
        Listing("source", "", (Line("a", spans[0]), Line("b", spans[1], (0, 1)))),
        Listing("tile", "", (Line("for", spans[1], (0,)),)),
    )
    second = (
        Listing("source", "", (Line("a", spans[0]), Line("b", spans[1]), Line("c", spans[2], (0,)))),
        Listing("tile", "", (Line("store", spans[2], (1,)),)),
    )
    source, tile = joined_listings([(phase(2), first), (phase(3), second)])
    assert [(line.text, line.ops) for line in source.lines] == [("a", ()), ("b", (0, 1)), ("c", (2,))]
    assert tile.text == "// phase 1 of 2: line 2\nfor\n// phase 2 of 2: line 3\nstore"
    assert [line.ops for line in tile.lines] == [(), (0,), (), (3,)]
