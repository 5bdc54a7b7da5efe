"""Banks of shared memory: conflicts against a count by brute force, swizzles against the hardware's rule."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.layouts import Swizzle, bank_conflicts
from tessera.viz.layouts.banks import SharedLayout, bank_report, usual_accesses

ACCESSES = st.sampled_from([1, 2, 4, 8, 16]).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 300).map(lambda n: n * size), min_size=32, max_size=32), st.just(size)
    )
)


def passes(addresses: list[int], size: int) -> list[list[int]]:
    """The lanes that the hardware serves together."""
    group = {8: 16, 16: 8}.get(size, 32)
    return [list(range(first, first + group)) for first in range(0, len(addresses), group)]


@settings(max_examples=40, deadline=None)
@given(ACCESSES)
def test_conflicts_are_those_that_counting_finds(access: tuple[list[int], int]):
    addresses, size = access
    worst, colliding = 1, set[int]()
    for lanes in passes(addresses, size):
        for bank in range(32):
            words: dict[int, set[int]] = defaultdict(set)
            for lane in lanes:
                for byte in range(addresses[lane], addresses[lane] + size):
                    if byte // 4 % 32 == bank:
                        words[byte // 4].add(lane)
            worst = max(worst, len(words))
            if len(words) > 1:
                colliding |= set().union(*words.values())
    report = bank_report(addresses, size)
    assert report.degree == worst == bank_conflicts(addresses, size)
    assert set(report.colliding) == colliding


def degrees(layout: SharedLayout) -> dict[str, int]:
    found: dict[str, int] = {}
    for access in usual_accesses(layout):
        addresses = [layout.offset(*place) for place in access.places]
        found[access.name] = bank_report(addresses, access.size).degree
    return found


def test_a_column_of_a_plain_tile_a_padded_one_and_a_swizzled_one():
    name = "a column, 4 B a lane"
    assert degrees(SharedLayout((32, 32), 4))[name] == 32
    assert degrees(SharedLayout((32, 32), 4, padding=4))[name] == 1
    assert degrees(SharedLayout((32, 32), 4, "xor"))[name] == 4


def test_ldmatrix_of_a_swizzled_tile_meets_no_conflict():
    name = "ldmatrix.x4: 16 x 16 of 16 bits"
    assert degrees(SharedLayout((64, 64), 2))[name] == 8
    assert degrees(SharedLayout((64, 64), 2, 128))[name] == 1
    assert degrees(SharedLayout((64, 32), 2, 64))[name] == 1


def test_two_lanes_that_share_a_bank_are_named():
    report = bank_report([0, 128, 4, *[8] * 29], 4)
    assert report.degree == 2
    (part,) = report.served
    (use,) = part.conflicts
    assert (use.bank, use.words) == (0, ((0, (0,)), (32, (1,))))
    assert report.colliding == (0, 1)


LAYOUTS = st.one_of(
    st.builds(SharedLayout, st.tuples(st.sampled_from([8, 16]), st.just(64)), st.sampled_from([2, 4]), st.sampled_from([0, 32, 64, 128, "xor"])),
    st.builds(SharedLayout, st.tuples(st.integers(1, 9), st.integers(1, 9)), st.just(4), st.just(0), st.integers(0, 3).map(lambda n: 4 * n)),
    st.builds(SharedLayout, st.just((32, 32)), st.just(4), st.just(Swizzle(((7, 4), (9, 5))))),
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(LAYOUTS)
def test_no_two_elements_lie_in_one_place_and_the_formula_says_where(layout: SharedLayout):
    places = [(row, column) for row in range(layout.rows) for column in range(layout.columns)]
    offsets = [layout.offset(*place) for place in places]
    assert len(set(offsets)) == len(places)
    forward, backward = (
        compile(text.replace("/", "//").replace(", ", "; "), "formula", "exec") for text in layout.formula()
    )
    for (row, col), wanted in zip(places, offsets, strict=True):
        known: dict[str, int] = {"row": row, "col": col}
        exec(forward, {}, known)
        assert (known["offset"], known["bank"]) == (wanted, wanted // 4 % 32)
        found: dict[str, int] = {"offset": wanted}
        exec(backward, {}, found)
        assert (found.get("row", 0), found["col"]) == (row, col)


@given(st.integers(0, 4095))
def test_the_hardware_swizzle_permutes_chunks_of_a_line(offset: int):
    layout = SharedLayout((64, 64), 1, 64)
    row, column = offset // 64, offset % 64
    line, chunk, inside = offset // 128, column // 16, column % 16
    assert layout.offset(row, column) == row * 64 + (chunk ^ line % 4) * 16 + inside


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (((2, 2, 2), 4), "one or two axes"),
        (((4, 4), 3), "1, 2, 4, 8 or 16 bytes, not 3"),
        (((4, 4), 4, 128, 4), "padded or swizzled, not both"),
        (((4, 4), 4, 48), "32, 64 or 128 bytes, not 48"),
        (((4, 4), 4, 128), "rows of 16 bytes are no panels of 128"),
        (((4, 4), 4, "and"), "not 'and'"),
    ],
)
def test_layouts_that_cannot_be(arguments: tuple[tuple[int, ...], int, int, int], why: str):
    with pytest.raises(ValueError, match=why):
        SharedLayout(*arguments)


def test_a_width_that_no_access_has():
    with pytest.raises(ValueError, match="not 3"):
        bank_report([0], 3)
