"""Rows without overlaps."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tessera.viz.graph.placing import COLUMN_GAP, Item, Slot, extent, spread, straightened

PLACES = st.lists(st.tuples(st.floats(-500, 500), st.floats(1, 90)), min_size=1, max_size=12)


@given(PLACES)
def test_boxes_move_apart_and_no_further(boxes: list[tuple[float, float]]):
    wanted, widths = [place for place, _ in boxes], [width for _, width in boxes]
    found = spread(wanted, widths, [10.0] * len(boxes))
    for (a, wide), (b, other) in pairwise(zip(found, widths, strict=True)):
        assert b - a >= (wide + other) / 2 + 10 - 1e-6
    # The mean does not move, and what fits is left alone.
    assert abs(sum(found) - sum(wanted)) < 1e-6 * len(boxes) * 1000
    assert all(abs(a - b) < 1e-6 for a, b in zip(spread(found, widths, [10.0] * len(boxes)), found, strict=True))


def test_rows_begin_at_the_left_and_have_an_extent():
    sizes = {"a": Item("a", 100, 30), "b": Item("b", 60, 50)}
    rows = straightened(((Slot("a", 10), Slot("b", 20)), (Slot("a", 15, "b"),)), sizes)
    assert rows[0][0].x == 50
    assert rows[0][1].x == 50 + 80 + COLUMN_GAP
    assert extent(rows, sizes) == (50 + 80 + COLUMN_GAP + 30, 50 + 34)
