"""Teaching pictures: what they say, and that they survive a notebook nobody trusts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.viz import diagrams
from tessera.viz.diagrams import Picture


@pytest.mark.parametrize(
    ("picture", "text"),
    [
        (diagrams.lanes(10, 4), "10 elements over 3 groups of 4 lanes, 2 idle"),
        (diagrams.lanes(8), "8 lanes, one an element"),
        (diagrams.tiles((300, 200), (128, 128)), "300 x 200 in 6 tiles of 128 x 128"),
        (diagrams.banks(16, 32), "16 lanes read column 0 of 16 x 32 (row major): 16 of them share a bank, 16 turns"),
        (
            diagrams.banks(8, 32, swizzle="xor"),
            "8 lanes read column 0 of 8 x 32 (swizzle=xor): no bank conflict, 1 turn",
        ),
        (diagrams.shuffle_sum(8), "8 lanes summed in 3 steps; lane 0 holds the sum"),
        (diagrams.pipeline(5), "5 blocks, 2 buffers: 6 steps instead of 10"),
        (diagrams.barrier(["a", "b"], lambda lane: lane + 1), "2 lanes wait at the barrier for the slowest: 2 steps"),
    ],
)
def test_a_picture_is_one_line_of_text_and_plain_html(picture: Picture, text: str) -> None:
    assert repr(picture) == picture.text == text
    html = picture._repr_html_()
    assert not any(tag in html for tag in ("<svg", "<script", "<style", "class=", "href"))
    assert html.count("<td") == html.count("</td>")
    assert len(html) < 40_000


def test_lanes_past_the_end_are_drawn_idle() -> None:
    assert diagrams.lanes(10, 4).html.count("&ndash;") == 2


def test_the_last_lane_of_a_shuffle_sum_holds_everything_once() -> None:
    assert "0 + 4 + 2 + 6 + 1 + 5 + 3 + 7" in diagrams.shuffle_sum(8).html


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 63), st.sampled_from([64, 128]), st.sampled_from([2, 4]))
def test_a_swizzle_permutes_a_line(row: int, columns: int, itemsize: int) -> None:
    plain = sorted(diagrams.bank(row, place, columns, itemsize) for place in range(columns))
    mixed = sorted(diagrams.bank(row, place, columns, itemsize, "xor") for place in range(columns))
    assert plain == mixed
