"""Plans of deterministic reductions: who holds, folds and sends what."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.errors.catalog import BadReductionTree
from tessera.core.placement.fold_plans import Message, even_shares, fold_plan, renumbered, shares_of, slice_of
from tessera.core.placement.reduction_trees import ReductionTree, contributions


# Partial nodes a rank of the padded binary tree over 72 leaves.
@pytest.mark.parametrize(
    ("ranks", "mean"),
    [
        (1, 1),
        (2, 3),
        (3, 2),
        (4, 3.25),
        (5, 3.6),
        (6, 2),
        (8, 3.25),
        (9, 1),
        (12, 2),
        (18, 1),
        (24, 2),
        (36, 1),
        (72, 1),
    ],
)
def test_how_much_more_than_a_ring_moves(ranks: int, mean: float):
    assert fold_plan(ReductionTree.binary(72), even_shares(72, ranks)).mean_partials == mean


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 24, 72])
def test_a_mixed_radix_aligns_a_chain_of_rank_counts(ranks: int):
    assert fold_plan(ReductionTree(72, (2, 2, 2, 3, 3)), even_shares(72, ranks)).mean_partials == 1


def test_a_plan_names_senders_and_messages():
    tree = ReductionTree.binary(6)
    plan = fold_plan(tree, even_shares(6, 2))
    assert plan.shares == ((0, 3), (3, 6))
    assert [[str(node) for node in nodes] for nodes in plan.partials] == [
        ["leaves 0 to 1", "leaf 2"],
        ["leaf 3", "leaves 4 to 5"],
    ]
    assert plan.local == (((0, 1), 2), (0, (1, 2)))
    assert plan.final == ((0, (1, 2)), 3)
    assert plan.senders == (0, 0, 1, 1)
    assert plan.folds_locally
    assert list(plan.messages()) == [Message(0, 1, plan.partials[0]), Message(1, 0, plan.partials[1])]


def test_a_leaf_a_rank_needs_no_local_fold():
    assert not fold_plan(ReductionTree.binary(5), even_shares(5, 5)).folds_locally


def test_a_rank_without_leaves_folds_its_slice_all_the_same():
    plan = fold_plan(ReductionTree.binary(2), even_shares(2, 3))
    assert plan.shares == ((0, 0), (0, 1), (1, 2))
    assert [message.source for message in plan.messages()] == [1, 1, 2, 2]
    assert plan.final == (0, 1)


@given(st.integers(1, 40), st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_all_partials_are_used_once_in_order(extra: int, counts: list[int]):
    counts = [*counts, extra]
    plan = fold_plan(ReductionTree.binary(sum(counts)), shares_of(counts))
    assert contributions(plan.final) == tuple(range(len(plan.senders)))
    for (first, stop), nodes, folds in zip(plan.shares, plan.partials, plan.local, strict=True):
        assert [leaf for fold in folds for leaf in contributions(fold)] == list(range(stop - first))
        assert len(nodes) == len(folds)


def test_slices_begin_at_multiples_of_a_granule():
    found = [slice_of(200, 3, rank, 64) for rank in range(3)]
    assert [(each.start, each.stop) for each in found] == [(0, 64), (64, 128), (128, 200)]
    assert [slice_of(5, 2, rank, 64).stop for rank in range(2)] == [0, 5]


@given(st.integers(0, 1000), st.integers(1, 80))
def test_slices_cover_all_elements(elements: int, ranks: int):
    slices = [slice_of(elements, ranks, rank) for rank in range(ranks)]
    assert slices[0].start == 0
    assert slices[-1].stop == elements
    assert all(a.stop == b.start for a, b in pairwise(slices))
    assert max(s.stop - s.start for s in slices) - min(s.stop - s.start for s in slices) <= 1


@pytest.mark.parametrize(
    ("shares", "said"),
    [(((0, 2), (3, 4)), "not one after the other"), (((0, 2), (2, 3)), "hold 3 leaves, and the tree has 4")],
)
def test_what_is_no_deal(shares: tuple[tuple[int, int], ...], said: str):
    with pytest.raises(BadReductionTree, match=said) as mistake:
        fold_plan(ReductionTree.binary(4), shares)
    assert mistake.value.hint


def test_renumbered():
    assert renumbered(((0, 1), 2), 5) == ((5, 6), 7)
