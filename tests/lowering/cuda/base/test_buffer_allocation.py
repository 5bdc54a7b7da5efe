from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.lowering.cuda.base.buffer_allocation import ALIGNMENT, Allocation, BufferAllocator


def test_the_first_gap_that_fits_is_used():
    arena = BufferAllocator(1024)
    first, second, third = (arena.take(200) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [p.start for p in (first, second, third)] == [0, 256, 512]
    arena.give_back(second)
    assert arena.take(128) == Allocation(256, 128)
    assert arena.take(200) == Allocation(768, 200)


def test_no_room_is_none():
    arena = BufferAllocator(256)
    assert arena.take(200) is not None
    assert arena.take(100) is None
    assert arena.peak == 200


@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 600)), max_size=40))
def test_pieces_in_use_never_overlap(steps: list[tuple[bool, int]]):
    arena, used = BufferAllocator(4096), list[Allocation]()
    for take, size in steps:
        if take:
            piece = arena.take(size)
            if piece is not None:
                assert piece.start % ALIGNMENT == 0
                assert piece.start + piece.size <= 4096
                assert not any(arena.overlaps(piece, other) for other in used)
                used.append(piece)
        elif used:
            arena.give_back(used.pop(size % len(used)))


def test_what_lies_beyond_the_limit_says_how_much_is_missing():
    arena = BufferAllocator(limit=1024)
    first = arena.take(1000)
    assert arena.take(100) is None
    beyond = arena.take_beyond(100)
    assert beyond.start >= 1024
    assert arena.peak == beyond.start + 100
    assert first is not None
    arena.give_back(beyond)
    arena.give_back(first)
    assert arena.take(1024) is not None
