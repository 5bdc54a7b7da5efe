"""What the views show of several phases."""

from tessera.core.base.source import Source, Span
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Block, Domain, Op, Program
from tessera.core.record import OpRecord, ValueRecord
from tessera.session.phase_views import joined_listings, joined_records


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


def test_operations_of_phases_keep_identities_of_their_own():
    def load(identity: str, operand: str) -> OpRecord:
        return OpRecord(identity, "tessera.load", "kernel", operands=(operand,), results=(ValueRecord(f"{identity}:0"),),
                        numbers=(int(identity.partition(".")[0]),), origin=("0",))  # fmt: skip

    root = OpRecord("kernel", "func.func", arguments=((ValueRecord("kernel^0.0"),),))
    records = (root, load("0", "kernel^0.0"), load("1.2", "0:0"))
    first, second, third = joined_records([(phase(2), records), (phase(3), records)])[3:]
    assert (first.id, first.arguments[0][0].id) == ("kernel-2", "kernel-2^0.0")
    assert (second.id, second.parent, second.operands) == ("2", "kernel-2", ("kernel-2^0.0",))
    assert (third.id, third.results[0].id, third.operands) == ("3.2", "3.2:0", ("2:0",))
    assert (third.numbers, third.origin) == ((3,), ("2",))


def test_a_phase_without_a_pass_is_shown_as_the_pass_before_left_it():
    def listing(stage: str, text: str) -> Listing:
        return Listing("tile", stage, (Line(text),))

    first = (listing("to-tile", "a"), listing("simplify", "b"))
    second = (listing("to-tile", "c"), listing("fit", "d"), listing("simplify", "e"))
    found = joined_listings([(phase(2), first), (phase(3), second)])
    heads = "// phase 1 of 2: line 2", "// phase 2 of 2: line 3"
    assert [one.stage for one in found] == ["to-tile", "fit", "simplify"]
    assert [one.text.split("\n") for one in found] == [
        [heads[0], old, heads[1], new] for old, new in ("ac", "ad", "be")
    ]
