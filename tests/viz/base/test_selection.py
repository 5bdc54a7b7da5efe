"""The name of a kernel's selection."""

from tessera.core.base.source import Source
from tessera.viz.base.selection import group_of


def test_equal_kernels_share_a_selection():
    one, other = Source("cell 1", "x = 1\n"), Source("cell 1", "x = 2\n")
    assert group_of("k", one) == group_of("k", one)
    assert len({group_of("k", one), group_of("k", other), group_of("l", one)}) == 3
