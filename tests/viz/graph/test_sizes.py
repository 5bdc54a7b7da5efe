"""Boxes hold what is in them."""

from tessera.viz.graph.model import Badge, Node, Region
from tessera.viz.graph.sizes import CHIP_HEIGHT, WIDEST, box_of, closed_box, head_of, largest


def test_badges_lie_in_their_box_side_by_side():
    badges = tuple(Badge("role", "consumer warps " * n, ring=n) for n in (1, 1, 2, 1))
    for box in (box_of(Node("a", "load", "64×64 bf16", badges=badges)), head_of(Region("r", "for k", badges=badges))):
        assert len(box.chips) == 4
        assert all(x + width <= box.width and y + CHIP_HEIGHT <= box.height for x, y, width in box.chips)
        for x, y, width in box.chips:
            others = [chip for chip in box.chips if chip != (x, y, width) and chip[1] == y]
            assert all(other[0] >= x + width or other[0] + other[2] <= x for other in others)


def test_long_names_end_somewhere():
    assert box_of(Node("a", "x" * 500)).width == WIDEST
    assert closed_box(Region("r", "x" * 500)).width < 2 * WIDEST
    small, large = box_of(Node("a", "x")), box_of(Node("a", "x" * 20, "note"))
    assert (largest([small, large]).width, largest([small, large]).height) == (large.width, large.height)
