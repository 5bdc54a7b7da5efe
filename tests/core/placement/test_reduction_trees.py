"""Reduction trees: their nodes, which of them lie in a range of leaves, and the orders of folding."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.errors.catalog import BadReductionTree
from tessera.core.placement.reduction_trees import Fold, ReductionTree, contributions, in_text, left_fold


@st.composite
def trees(draw: st.DrawFn) -> ReductionTree:
    radices = draw(st.lists(st.integers(2, 5), max_size=4))
    return ReductionTree(draw(st.integers(1, math.prod(radices))), tuple(radices))


def test_the_binary_tree_is_padded():
    tree = ReductionTree.binary(5)
    assert tree.radices == (2, 2, 2)
    assert in_text(tree.leaf_fold()) == "((x0 + x1) + (x2 + x3)) + x4"
    assert in_text(ReductionTree.binary(7).leaf_fold()) == "((x0 + x1) + (x2 + x3)) + ((x4 + x5) + x6)"
    assert ReductionTree.binary(1).leaf_fold() == 0


def test_radices_stand_outermost_first():
    tree = ReductionTree(12, (2, 2, 3))
    assert tree.widths == (1, 3, 6, 12)
    assert (
        in_text(tree.leaf_fold()) == "(((x0 + x1) + x2) + ((x3 + x4) + x5)) + (((x6 + x7) + x8) + ((x9 + x10) + x11))"
    )
    assert [str(node) for node in tree.children(tree.root)] == ["leaves 0 to 5", "leaves 6 to 11"]
    assert tree.children(tree.node(0, 3)) == ()
    assert str(tree) == "12 leaves, radices 2 x 2 x 3"


def test_names_of_trees():
    assert ReductionTree.of(72) == ReductionTree.of(72, "binary_tree") == ReductionTree.binary(72)
    assert in_text(ReductionTree.of(4, "chain").leaf_fold()) == "((x0 + x1) + x2) + x3"
    assert ReductionTree.of(1, "chain").leaf_fold() == 0
    assert ReductionTree.of(72, [9, 8]).radices == (9, 8)


@pytest.mark.parametrize(
    ("leaves", "radices", "said"),
    [
        (0, (2,), "a reduction of 0 leaves"),
        (8, (2, 2), "have room for 4 leaves, and there are 8"),
        (2, (2, 1), "hold one below 2"),
        (3, "ring", "there is no reduction tree 'ring'"),
    ],
)
def test_what_is_no_tree(leaves: int, radices: tuple[int, ...] | str, said: str):
    with pytest.raises(BadReductionTree, match=said) as mistake:
        ReductionTree.of(leaves, radices)
    assert mistake.value.hint


@given(trees(), st.data())
def test_partial_nodes_cover_a_range_once_and_are_the_largest(tree: ReductionTree, data: st.DataObject):
    first = data.draw(st.integers(0, tree.leaves))
    stop = data.draw(st.integers(first, tree.leaves))
    nodes = tree.partial_nodes(first, stop)
    assert [leaf for node in nodes for leaf in range(node.first, node.stop)] == list(range(first, stop))
    for node in nodes:
        if node.level < len(tree.radices):
            parent = tree.node(node.level + 1, node.index // tree.radices[len(tree.radices) - node.level - 1])
            assert parent.first < first or parent.stop > stop


@given(trees(), st.lists(st.integers(0, 700), max_size=6))
def test_cuts_change_no_fold(tree: ReductionTree, cuts: list[int]):
    """However leaves are dealt, what is folded first and then put together is the fold of all leaves."""
    ends = [0, *sorted(cut % (tree.leaves + 1) for cut in cuts), tree.leaves]
    nodes = [node for first, stop in pairwise(ends) for node in tree.partial_nodes(first, stop)]
    whole = tree.fold(nodes)

    def leaves_of(fold: Fold) -> Fold:
        if isinstance(fold, int):
            node = nodes[fold]
            return _plus(tree.leaf_fold(node.first, node.stop), node.first)
        return (leaves_of(fold[0]), leaves_of(fold[1]))

    assert leaves_of(whole) == tree.leaf_fold()


def _plus(fold: Fold, step: int) -> Fold:
    return fold + step if isinstance(fold, int) else (_plus(fold[0], step), _plus(fold[1], step))


@given(trees())
def test_a_fold_has_every_leaf_once_in_order(tree: ReductionTree):
    assert contributions(tree.leaf_fold()) == tuple(range(tree.leaves))


def test_missing_nodes_are_named():
    tree = ReductionTree.binary(4)
    with pytest.raises(BadReductionTree, match="no rank gives leaf 3"):
        tree.fold((tree.node(1, 0), tree.node(0, 2)))


def test_left_fold():
    assert left_fold([3]) == 3
    assert left_fold([0, 1, 2]) == ((0, 1), 2)
