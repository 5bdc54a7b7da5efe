"""Values through regions."""

from tessera.core.record import OpRecord, ValueRecord
from tessera.viz.graph.flow import Join, joins, taken_by_regions

LOOP = OpRecord(
    "l", "scf.for", operands=("lb", "ub", "step", "init"), results=(ValueRecord("l:0"),),
    arguments=((ValueRecord("l^0.0"), ValueRecord("l^0.1")),),
)  # fmt: skip


def test_a_loop_begins_with_what_it_is_given_and_goes_on_with_what_it_yields():
    end = OpRecord("y", "scf.yield", "l", operands=("next",))
    assert list(joins([LOOP, end])) == [
        Join("init", "l^0.1", "l"), Join("next", "l^0.1", "y", carried=True), Join("next", "l:0", "y"),
    ]  # fmt: skip
    assert taken_by_regions(LOOP) == ("lb", "ub", "step")


def test_both_branches_make_the_result():
    branch = OpRecord("i", "scf.if", operands=("c",), results=(ValueRecord("i:0"),))
    ends = [OpRecord(f"y{n}", "scf.yield", "i", n, (f"v{n}",)) for n in (0, 1)]
    assert list(joins([branch, *ends])) == [Join("v0", "i:0", "y0"), Join("v1", "i:0", "y1")]
    assert taken_by_regions(branch) == ("c",)
