"""Counts, labels and figures in words."""

from tessera.viz.diffs.model import Change, Comparison, FigurePair, Side


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


def test_labels():
    assert (
        Side("gemm", "cpu", "tile", "tile-simplify", "BK=64").label == "gemm · cpu · tile after tile-simplify · BK=64"
    )
    assert Side("gemm", "cuda:sm_90a", "ptx", "").label == "gemm · cuda:sm_90a · ptx, final"


def test_figures():
    one = FigurePair("registers", "", 168, 200)
    assert (one.told_before, one.told_after, one.delta) == ("168", "200", "+32")
    assert FigurePair("code", "bytes", 2048, 1024).delta == "-1,024"
    unknown = FigurePair("time", "us", None, 3.5)
    assert (unknown.told_before, unknown.told_after, unknown.delta) == ("not measured", "3.5 us", "")
    assert FigurePair("code", "bytes", 5, 5).delta == "="
