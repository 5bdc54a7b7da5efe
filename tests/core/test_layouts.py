"""The algebra of layouts: which element lies where, in registers and in swizzled shared memory."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.layouts import (
    Change,
    Layout,
    Swizzle,
    accumulator,
    axis_bits,
    bank_conflicts,
    bits_of,
    blocked,
    choose_swizzle,
    combine,
    coordinates,
    rank,
    slowdown,
    spread,
    swizzled,
)

LANES = 32


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...] | None = None, bits: int = 10) -> Layout:
    """Layouts that hand out the bits of a tile in any order, some elements held several times."""
    if shape is None:
        parts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3).filter(lambda s: sum(s) <= bits))
        shape = tuple(1 << part for part in parts)
    total = sum(map(bits_of, shape))
    places = draw(st.lists(st.sampled_from(["registers", "lanes", "warps"]), min_size=total, max_size=total))
    order = [(place, 1 << bit) for place, bit in zip(places, draw(st.permutations(range(total))), strict=True)]
    return spread(shape, order, draw(st.integers(0, 3)))


def table(layout: Layout) -> np.ndarray:
    """Elements by warp, lane and register."""
    warps, lanes = 1 << len(layout.warps), 1 << len(layout.lanes)
    return np.array([[[layout.element(r, lane, w) for r in range(layout.count)] for lane in range(lanes)]
                     for w in range(warps)])  # fmt: skip


def inverse(layout: Layout) -> set[int]:
    return set(table(layout).ravel().tolist())


@given(layouts())
def test_every_element_lies_somewhere(layout: Layout):
    assert layout.covers()
    assert inverse(layout) == set(range(math.prod(layout.shape)))
    for lane in table(layout).reshape(-1, layout.count):
        assert len(set(lane.tolist())) == layout.count


def test_a_layout_that_leaves_elements_out():
    assert not Layout((4,), (1,), (1,)).covers()
    assert not Layout((4,), (1, 2, 0)).covers()


@given(layouts(), st.data())
def test_transposed(layout: Layout, data: st.DataObject):
    """The element with indices (i, j, k) is where (i, j, k) permuted is afterwards."""
    permutation = data.draw(st.permutations(range(len(layout.shape))))
    after = layout.transposed(permutation)
    assert after.shape == tuple(layout.shape[axis] for axis in permutation)
    for before_, after_ in zip(table(layout).ravel(), table(after).ravel(), strict=True):
        old = coordinates(int(before_), layout.shape)
        assert coordinates(int(after_), after.shape) == tuple(old[axis] for axis in permutation)


@given(layouts(), st.data())
def test_sliced(layout: Layout, data: st.DataObject):
    """Every lane has what the elements it had become when indices along the axes are 0."""
    axes = data.draw(st.sets(st.sampled_from(range(len(layout.shape)))))
    after = layout.sliced(axes)
    old, new = table(layout), table(after)
    for warp in range(old.shape[0]):
        for lane in range(old.shape[1]):
            wanted = {
                tuple(0 if axis in axes else place for axis, place in enumerate(coordinates(int(e), layout.shape)))
                for e in old[warp, lane]
            }
            assert {coordinates(int(e), after.shape) for e in new[warp, lane]} == wanted
            assert len(wanted) == after.count


@given(layouts())
def test_reshaped(layout: Layout):
    total = math.prod(layout.shape)
    assert (table(layout.reshaped((1, total))) == table(layout)).all()


@given(layouts())
def test_register_of(layout: Layout):
    for register in range(layout.count):
        assert layout.register_of(layout.element(register)) == register


@given(st.integers(0, 2**12 - 1), st.data())
def test_compress(mask: int, data: st.DataObject):
    """A number for each element with bits in the mask, without gaps, in the same order."""
    bits = [1 << bit for bit in range(12) if mask >> bit & 1]
    elements = sorted(combine(bits, place) for place in range(1 << len(bits)))
    change = Change.compress(mask)
    assert [change(e) for e in elements] == list(range(len(elements)))


@given(st.integers(0, 2**8 - 1), st.permutations(range(8)))
def test_exchange(element: int, order: list[int]):
    """Two bits change places."""
    first, second = order[:2]
    bits = [element >> bit & 1 for bit in range(8)]
    bits[first], bits[second] = bits[second], bits[first]
    assert Change.exchange(8, 1 << first, 1 << second)(element) == sum(bit << place for place, bit in enumerate(bits))


@given(st.lists(st.integers(0, 255), max_size=8))
def test_rank(bases: list[int]):
    assert 1 << rank(bases) == len({combine(bases, place) for place in range(1 << len(bases))})


@pytest.mark.parametrize("shape", [(64,), (16, 32), (2, 4, 8), (1, 1)])
def test_axis_bits(shape: tuple[int, ...]):
    for axis, extent in enumerate(shape):
        for bit, number in enumerate(axis_bits(shape, axis)):
            assert coordinates(number, shape) == tuple(1 << bit if a == axis else 0 for a in range(len(shape)))
        assert 1 << len(axis_bits(shape, axis)) == extent


def test_extents_are_powers_of_two():
    with pytest.raises(ValueError, match="24 is not a power of two"):
        blocked((24,), 4, 0)


@given(st.integers(0, 5), st.integers(0, 7), st.integers(0, 3), st.integers(0, 3))
def test_blocked(rows: int, columns: int, vector: int, warps: int):
    """A lane has whole vectors, and its neighbour the next one."""
    shape = (1 << rows, 1 << columns)
    layout = blocked(shape, 1 << vector, warps)
    width = min(1 << vector, shape[1])
    assert layout.covers()
    found = table(layout)
    assert (found[0, 0, :width] == np.arange(width)).all()
    if math.prod(shape) >= LANES * width:
        assert (found[0, :, 0] == np.arange(LANES) * width).all()


@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(64, 8, 2), (64, 256, 2), (128, 64, 3), (128, 16, 2), (16, 8, 0)]
)
def test_accumulator(rows: int, columns: int, warps: int):
    """The formulas of the PTX ISA, "Register Fragments": of m64nNk16 for wgmma, of m16n8k16 for mma.sync.

    row = 16 * (warp % 4) + lane / 4 (+ 8 for registers 2 and 3), column = 8 * (i / 4) + 2 * (lane % 4) + i % 2
    """
    layout = accumulator((rows, columns), warps)
    assert layout.covers()
    count = 4 * columns // 8
    for warp in range(1 << warps):
        for lane in range(LANES):
            for i in range(count):
                row = 16 * (warp % 4 if rows >= 64 else 0) + lane // 4 + 8 * (i // 2 % 2)
                row += 64 * (warp // 4) if rows > 64 else 0
                column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
                assert coordinates(layout.element(i, lane, warp), (rows, columns)) == (row % rows, column)


# -- shared memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_swizzles_of_the_hardware(swizzle: int):
    """Units of 16 bytes change places within lines of `swizzle` bytes; 8 lines of 128 bytes repeat."""
    offsets = [swizzled(offset, swizzle) for offset in range(2048)]
    assert sorted(offsets) == list(range(2048))
    for offset, moved in enumerate(offsets):
        assert offset // max(16, swizzle) == moved // max(16, swizzle)
        assert offset % 16 == moved % 16
    if swizzle == 128:
        assert [offsets[128 * line] // 16 % 8 for line in range(9)] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
    if swizzle == 64:
        assert [offsets[128 * line] // 16 % 8 for line in range(5)] == [0, 1, 2, 3, 0]


def addresses(layout: Layout, size: int, swizzle: Swizzle, first: int) -> list[int]:
    """Where the lanes of warp 0 find their register `first`."""
    return [swizzle(layout.element(first, lane) * size) for lane in range(1 << len(layout.lanes))]


@settings(max_examples=60, deadline=None)
@given(layouts(), st.sampled_from([4, 8]), st.lists(st.tuples(st.integers(7, 12), st.integers(4, 6)), max_size=3))
def test_slowdown_is_what_the_banks_say(layout: Layout, size: int, pairs: list[tuple[int, int]]):
    swizzle = Swizzle(tuple({target: (source, target) for source, target in pairs}.values()))
    for register in range(layout.count):
        assert bank_conflicts(addresses(layout, size, swizzle, register), size) == slowdown(layout, 1, size, swizzle)


@given(st.lists(st.tuples(st.integers(7, 12), st.integers(4, 6)), max_size=3))
def test_a_swizzle_is_linear_and_can_be_undone(pairs: list[tuple[int, int]]):
    swizzle = Swizzle(tuple(pairs))
    moved = [swizzle(offset) for offset in range(0, 8192, 16)]
    assert len(set(moved)) == len(moved)
    assert all(swizzle(a ^ b) == swizzle(a) ^ swizzle(b) for a, b in [(112, 4096), (5000, 3000), (8191, 128)])
    offset = 5432
    parts = offset
    for distance, mask in Swizzle(tuple({t: (s, t) for s, t in pairs}.values())).shifts().items():
        parts ^= offset >> distance & mask
    assert parts == Swizzle(tuple({t: (s, t) for s, t in pairs}.values()))(offset)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4, 8]))
def test_moving_a_tile_through_memory(data: st.DataObject, size: int):
    """Write in one layout, read in the other: every lane finds the elements that its new layout names."""
    before = data.draw(layouts())
    after = data.draw(layouts(before.shape))
    swizzle = choose_swizzle([(before, 1), (after, 1)], size)
    memory: dict[int, int] = {}
    for element in table(before).ravel().tolist():
        memory[swizzle(element * size)] = element
    assert len(memory) == math.prod(before.shape)
    for element in table(after).ravel().tolist():
        assert memory[swizzle(element * size)] == element


def vector(layout: Layout, size: int) -> int:
    """Elements in one access: neighbours in neighbouring registers, of at most 16 bytes."""
    count = 0
    while count < len(layout.registers) and layout.registers[count] == 1 << count and (2 << count) * size <= 16:
        count += 1
    return 1 << count


@pytest.mark.parametrize(
    ("rows", "columns", "size", "most"),
    [(64, 64, 4, 2), (64, 64, 2, 1), (32, 32, 4, 2), (64, 64, 8, 4), (128, 32, 4, 2)],
)
def test_conflicts_of_a_transposition(rows: int, columns: int, size: int, most: int):
    """Rows are written element by element into columns, and read in whole vectors."""
    before = blocked((rows, columns), 16 // size, 2).transposed((1, 0))
    after = blocked((columns, rows), 16 // size, 2)
    accesses = [(before, vector(before, size)), (after, vector(after, size))]
    swizzle = choose_swizzle(accesses, size)
    written = bank_conflicts([swizzle(before.element(0, lane) * size) for lane in range(LANES)], size)
    read = bank_conflicts([swizzle(after.element(0, lane) * size) for lane in range(LANES)], 16)
    assert read == 1
    assert written <= most
    assert bank_conflicts([before.element(0, lane) * size for lane in range(LANES)], size) > most


def test_rows_that_are_read_as_they_were_written_need_no_swizzle():
    layout = blocked((16, 64), 4, 1)
    assert choose_swizzle([(layout, 4), (layout, 4)], 4) == Swizzle()


def test_bank_conflicts():
    assert bank_conflicts([4 * lane for lane in range(32)], 4) == 1
    assert bank_conflicts([0] * 32, 4) == 1  # one word for all
    assert bank_conflicts([128 * lane for lane in range(32)], 4) == 32
    assert bank_conflicts([16 * lane for lane in range(32)], 16) == 1
    assert bank_conflicts([128 * lane for lane in range(32)], 16) == 8
    assert bank_conflicts([8 * lane for lane in range(32)], 4) == 2


def test_text():
    assert blocked((4, 64), 4, 1).text() == "registers [1:1, 1:2] lanes [1:4, 1:8, 1:16, 1:32, 0:1] warps [0:2]"
    assert Layout(()).text() == "one element"
    assert Layout((8,), (), (3, 0)).text() == "lanes [0:3, -]"


@given(st.sampled_from([(4, 8), (1, 64), (16,), (2, 4, 8)]), st.data())
def test_the_text_of_a_layout_is_read_back(shape: tuple[int, ...], data: st.DataObject):
    bits = bits_of(math.prod(shape))
    bases = data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=3, max_size=9))
    registers = tuple(basis for basis in bases[:2] if basis)
    layout = Layout(shape, registers, tuple(bases[2:6]), tuple(bases[6:]))
    assert Layout.parse(layout.text(), shape) == layout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("register [1:1]", "`register .1:1.` is not the text of a layout"),
        ("registers [2:1]", "`2:1` is no move inside a tile of 4 x 8"),
        ("lanes [0:1, 1:8]", "`1:8` is no move inside a tile of 4 x 8"),
        ("lanes [up]", "`up` is no move inside a tile of 4 x 8"),
    ],
)
def test_what_is_no_layout_is_refused(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        Layout.parse(text, (4, 8))
