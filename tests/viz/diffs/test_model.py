"""Labels of sides."""

from tessera.viz.diffs.model import Side


def test_labels():
    assert (
        Side("gemm", "cpu", "tile", "tile-simplify", "BK=64").label == "gemm · cpu · tile after tile-simplify · BK=64"
    )
    assert Side("gemm", "cuda:sm_90a", "ptx", "").label == "gemm · cuda:sm_90a · ptx, final"
