"""Plans of deterministic reductions: which partial nodes each rank folds, who sends them to whom, who folds the rest.

Every rank folds its own leaves to the largest nodes of the tree within them.  Elements are cut into a slice a rank;
rank r gets the slice r of all partial nodes, folds it to the root, and sends the result to all.  That is an all-to-all
and an all-gather: as many bytes as a ring where each rank has one node, and two steps whatever the number of ranks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tessera.core.errors.catalog import BadReductionTree
from tessera.core.placement.reduction_trees import Fold, ReductionTree, TreeNode


@dataclass(frozen=True, slots=True)
class Message:
    """Partial nodes whose slice `target` one rank sends another."""

    source: int
    target: int
    nodes: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """A plan: which rank folds which nodes.

    shares: the leaves (first, stop) of each rank, one after the other
    partials: the nodes that each rank folds of its leaves
    local: how it folds each of them, leaves numbered from the rank's first on
    final: how all partial nodes make the root, numbered rank by rank
    """

    tree: ReductionTree
    shares: tuple[tuple[int, int], ...]
    partials: tuple[tuple[TreeNode, ...], ...]
    local: tuple[tuple[Fold, ...], ...]
    final: Fold

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.shares)

    @property
    def senders(self) -> tuple[int, ...]:
        """The rank of each partial node, in the order of `final`."""
        return tuple(rank for rank, nodes in enumerate(self.partials) for _ in nodes)

    @property
    def mean_partials(self) -> float:
        """Partial nodes a rank: how many times a ring's volume the first half of the exchange has."""
        return len(self.senders) / self.ranks

    @property
    def folds_locally(self) -> bool:
        """Return whether any rank folds leaves before it sends."""
        return any(not isinstance(fold, int) for folds in self.local for fold in folds)

    def messages(self) -> Iterator[Message]:
        """Yield what ranks send each other before the last fold."""
        for source, nodes in enumerate(self.partials):
            for target in range(self.ranks):
                if source != target and nodes:
                    yield Message(source, target, nodes)


def even_shares(leaves: int, ranks: int) -> tuple[tuple[int, int], ...]:
    """Return the leaves (first, stop) of each rank, as even as whole leaves allow."""
    return tuple((leaves * rank // ranks, leaves * (rank + 1) // ranks) for rank in range(ranks))


def shares_of(counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the leaves (first, stop) of ranks that hold `counts` leaves, one after the other."""
    shares: list[tuple[int, int]] = []
    for count in counts:
        first = shares[-1][1] if shares else 0
        shares.append((first, first + count))
    return tuple(shares)


def slice_of(elements: int, ranks: int, rank: int, granule: int = 1) -> slice:
    """Return the elements that `rank` folds: as even as whole granules allow, so that slices are aligned."""
    granules = -(-elements // granule)
    start, stop = (min(elements, granule * (granules * end // ranks)) for end in (rank, rank + 1))
    return slice(start, stop)


@lru_cache(maxsize=256)
def fold_plan(tree: ReductionTree, shares: tuple[tuple[int, int], ...]) -> FoldPlan:
    """Plan a reduction over ranks that hold `shares` of the leaves.

    Raises BadReductionTree where the shares are not all leaves, one after the other.
    """
    ends = [0, *(stop for _, stop in shares)]
    if any(first != end or stop < first for (first, stop), end in zip(shares, ends, strict=False)):
        raise BadReductionTree(f"the shares {shares} are not one after the other", hint="deal leaves in order of ranks")
    if ends[-1] != tree.leaves:
        message = f"the ranks hold {ends[-1]} leaves, and the tree has {tree.leaves}"
        raise BadReductionTree(message, hint=f"deal all {tree.leaves} leaves over the ranks")
    partials = tuple(tree.partial_nodes(*share) for share in shares)
    local = tuple(
        tuple(_shifted(tree, node, share[0]) for node in nodes) for nodes, share in zip(partials, shares, strict=True)
    )
    flat = [node for nodes in partials for node in nodes]
    return FoldPlan(tree, shares, partials, local, tree.fold(flat))


def _shifted(tree: ReductionTree, node: TreeNode, first: int) -> Fold:
    """Return how a node is folded of leaves that are numbered from `first` on."""
    return renumbered(tree.leaf_fold(node.first, node.stop), node.first - first)


def renumbered(fold: Fold, step: int) -> Fold:
    """Return the fold with every number larger by `step`."""
    if isinstance(fold, int):
        return fold + step
    return (renumbered(fold[0], step), renumbered(fold[1], step))
