"""Listings are values, and stay so on their way between processes."""

import pickle

from tessera.core.base.source import Span
from tessera.core.listing import Line, Listing

LISTING = Listing("tile", "build", (Line("a", (Span("cell.py", 1, 2, 1, 3),), (4, 5)), Line("b")))


def test_the_text_is_that_of_the_lines():
    assert LISTING.text == "a\nb"
    assert Listing("tile", "", ()).text == ""


def test_a_listing_travels_whole():
    assert pickle.loads(pickle.dumps(LISTING)) == LISTING


def test_lines_travel_without_their_names():
    """They are thousands: each costs no more than its own text."""
    many = Listing("asm", "", (Line("x"),) * 1000)
    assert len(pickle.dumps(many)) < 10_000
