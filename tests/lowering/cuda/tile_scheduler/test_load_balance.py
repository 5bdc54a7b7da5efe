"""The order of uneven groups, worked out with plain numbers: what `IndexBuilder` does with ints is arithmetic."""

from hypothesis import given
from hypothesis import strategies as st

from support.mlir import plain_number
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.tile_scheduler.load_balance import LoadBalancedOrder

OTHERS, COUNTS, BLOCKS = st.integers(1, 90), st.integers(1, 40), st.integers(1, 150)


def order(others: int, count: int, blocks: int, *, grows: bool = True) -> list[int]:
    """The groups in the order in which they are done."""
    uneven = LoadBalancedOrder(IndexBuilder.__new__(IndexBuilder), min(blocks, others * count), others, count, grows)
    return [plain_number(uneven.group(number)) for number in range(others * count)]


def work(groups: list[int], count: int, blocks: int) -> list[int]:
    """What each block has to do, where group number `along` works for along + 1."""
    return [sum(group % count + 1 for group in groups[block::blocks]) for block in range(min(blocks, len(groups)))]


@given(OTHERS, COUNTS, BLOCKS)
def test_every_group_is_done_once(others: int, count: int, blocks: int):
    assert sorted(order(others, count, blocks)) == list(range(others * count))


@given(OTHERS, COUNTS, BLOCKS)
def test_where_the_first_groups_are_large_the_order_is_mirrored(others: int, count: int, blocks: int):
    mirrored = [group - group % count + count - 1 - group % count for group in order(others, count, blocks)]
    assert order(others, count, blocks, grows=False) == mirrored


@given(OTHERS, COUNTS, BLOCKS)
def test_no_block_has_much_more_to_do(others: int, count: int, blocks: int):
    done = work(order(others, count, blocks), count, blocks)
    assert max(done) <= sum(done) / len(done) + count


def test_blocks_of_a_large_launch_end_together():
    for others, count in ((64, 32), (128, 32), (16, 128), (64, 33), (48, 64)):
        done = work(order(others, count, 132), count, 132)
        assert max(done) * 132 / sum(done) < 1.013


def test_one_round_of_pairs_after_the_other_in_few_heads():
    groups = order(64, 32, 132)
    for first in range(0, 10 * 132, 264):
        large, small = groups[first : first + 132], groups[first + 132 : first + 264]
        assert all(a % 32 + b % 32 == 31 for a, b in zip(large, small, strict=True))
        assert all(group % 32 >= 16 for group in large)
        heads = {group // 32 for group in large}
        assert heads == {group // 32 for group in small}
        assert len(heads) == 9


def test_what_remains_is_done_largest_first():
    groups = order(64, 32, 132)[10 * 132 :]
    rounds = [sorted(group % 32 for group in groups[first : first + 132]) for first in range(0, len(groups), 132)]
    assert [(one[0], one[-1]) for one in rounds] == [(26, 31), (20, 26), (14, 20), (8, 14), (3, 8), (0, 3)]
    assert len({group // 32 for group in groups}) == 23


def test_the_smallest_groups_of_an_odd_count_come_last():
    groups = order(10, 33, 20)
    assert [group % 33 for group in groups[-10:]] == [0] * 10
    assert all(group % 33 for group in groups[:-10])
