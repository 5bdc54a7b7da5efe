"""Counts of changes in words."""

from tessera.viz.stage_alignment.changes import Change, Comparison


def test_counts_leave_out_what_has_no_line_and_places():
    changes = (
        Change("added", "a", "", (), (1,)),
        Change("removed", "constant", ""),
        Change("changed", "b", "", (1,), (2,), ("locations",)),
        Change("changed", "c", "", (2,), (3,), ("operands",)),
    )
    one = Comparison((), (), (), changes, 4)
    assert one.told == "1 added, 1 changed"
    assert one.counts == {"added": 1, "removed": 0, "changed": 1, "moved": 0, "fused": 0, "split": 0}
    assert Comparison((), (), (), (), 0).told == "no changes"
