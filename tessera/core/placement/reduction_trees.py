"""Reduction trees over numbered leaves: the order in which parts are folded, on whatever rank they are.

A tree has V leaves and a radix a level, outermost first.  (2, 2, 2, 3, 3) over 72 leaves: the root folds 2 nodes of 36
leaves, each of these 2 nodes of 18, and so on; the innermost fold 3 leaves.  A node folds its children from the left:
((c0 + c1) + c2).  The radices may have room for more leaves than there are: what is missing is absent, and changes no
bit.  `binary` is the padded tree of radix 2.

The tree depends on leaves alone.  How many ranks there are decides who folds which node, never the result: a rank that
holds the leaves 8 to 17 folds the largest nodes that lie within them (`partial_nodes`) and sends those.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Final, TypeAlias

from tessera.core.errors.catalog import BadReductionTree

Fold: TypeAlias = "int | tuple[Fold, Fold]"
"""An order of folding: the number of a contribution, or the fold of two folds, the left one first."""

_LEAST_RADIX: Final = 2
_EXAMPLE: Final = 'write a radix a level, outermost first, such as (2, 2, 2, 3, 3) for 72 leaves, or "binary_tree"'


@dataclass(frozen=True, slots=True, order=True)
class TreeNode:
    """A node: the leaves from `first` up to `stop`; level 0 are leaves, and `index` counts the nodes of a level."""

    first: int
    stop: int
    level: int
    index: int

    def __str__(self) -> str:
        return f"leaf {self.first}" if self.stop - self.first == 1 else f"leaves {self.first} to {self.stop - 1}"


@dataclass(frozen=True)
class ReductionTree:
    """A tree over `leaves` leaves.  `radices`: outermost first."""

    leaves: int
    radices: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise BadReductionTree for radices that do not make a tree of these leaves."""
        if self.leaves < 1:
            raise BadReductionTree(f"a reduction of {self.leaves} leaves", hint="give at least one leaf")
        if any(radix < _LEAST_RADIX for radix in self.radices):
            raise BadReductionTree(f"the radices {self.radices} hold one below 2", hint=_EXAMPLE)
        if prod(self.radices) < self.leaves:
            message = (
                f"the radices {self.radices} have room for {prod(self.radices)} leaves, and there are {self.leaves}"
            )
            raise BadReductionTree(message, hint=_EXAMPLE)

    @classmethod
    def binary(cls, leaves: int) -> "ReductionTree":
        """Return the binary tree, padded to a power of two with leaves that are absent."""
        return cls(leaves, (2,) * max(0, leaves - 1).bit_length())

    @classmethod
    def of(cls, leaves: int, radices: "Sequence[int] | str | None" = None) -> "ReductionTree":
        """Return the tree that `radices` names: "binary_tree" (None), "chain", or a radix a level, outermost first.

        "chain" folds all leaves one after the other.  Raises BadReductionTree.
        """
        if radices is None or radices == "binary_tree":
            return cls.binary(leaves)
        if radices == "chain":
            return cls(leaves, (leaves,) if leaves > 1 else ())
        if isinstance(radices, str):
            raise BadReductionTree(f"there is no reduction tree {radices!r}", hint=_EXAMPLE)
        return cls(leaves, tuple(radices))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Leaves of a node of each level, from 1 (level 0) to the root's, as if none were absent."""
        widths = [1]
        for radix in reversed(self.radices):
            widths.append(widths[-1] * radix)
        return tuple(widths)

    @property
    def root(self) -> TreeNode:
        """The node of all leaves."""
        return self.node(len(self.radices), 0)

    def node(self, level: int, index: int) -> TreeNode:
        """Return a node, without the leaves that are absent."""
        width = self.widths[level]
        return TreeNode(index * width, min((index + 1) * width, self.leaves), level, index)

    def children(self, node: TreeNode) -> tuple[TreeNode, ...]:
        """Return the children of a node that are present, from the left; none for a leaf."""
        if not node.level:
            return ()
        radix = self.radices[len(self.radices) - node.level]
        below = (self.node(node.level - 1, node.index * radix + child) for child in range(radix))
        return tuple(child for child in below if child.first < self.leaves)

    def partial_nodes(self, first: int, stop: int) -> tuple[TreeNode, ...]:
        """Return the largest nodes within the leaves from `first` up to `stop`, from the left: they cover them."""
        return tuple(self._within(self.root, first, min(stop, self.leaves)))

    def _within(self, node: TreeNode, first: int, stop: int) -> Iterator[TreeNode]:
        if first >= node.stop or stop <= node.first:
            return
        if first <= node.first and node.stop <= stop:
            yield node
            return
        for child in self.children(node):
            yield from self._within(child, first, stop)

    def fold(self, given: Sequence[TreeNode], node: TreeNode | None = None) -> Fold:
        """Return how `node` (None: the root) is folded of given nodes, numbered as they stand; a node of one is it.

        Raises BadReductionTree where they do not make it up.
        """
        numbers = {(each.first, each.stop): number for number, each in enumerate(given)}
        return self._fold(self.root if node is None else node, numbers)

    def _fold(self, node: TreeNode, numbers: dict[tuple[int, int], int]) -> Fold:
        found = numbers.get((node.first, node.stop))
        if found is not None:
            return found
        parts = [self._fold(child, numbers) for child in self.children(node)]
        if not parts:
            raise BadReductionTree(f"no rank gives {node}", hint="the shares of all ranks together hold every leaf")
        return left_fold(parts)

    def leaf_fold(self, first: int = 0, stop: int | None = None) -> Fold:
        """Return how the one node of the leaves from `first` up to `stop` is folded, numbered from `first` on."""
        return _leaf_fold(self, first, self.leaves if stop is None else stop)

    def __str__(self) -> str:
        return f"{self.leaves} leaves, radices {' x '.join(map(str, self.radices)) or '1'}"


@lru_cache(maxsize=1024)
def _leaf_fold(tree: ReductionTree, first: int, stop: int) -> Fold:
    (node,) = tree.partial_nodes(first, stop)
    return tree.fold(tuple(tree.node(0, leaf) for leaf in range(node.first, node.stop)), node)


def left_fold(parts: Sequence[Fold]) -> Fold:
    """Return the fold of `parts` one after the other, from the left."""
    result = parts[0]
    for part in parts[1:]:
        result = (result, part)
    return result


@lru_cache(maxsize=1024)
def contributions(fold: Fold) -> tuple[int, ...]:
    """Return the numbers in a fold, in its order."""
    if isinstance(fold, int):
        return (fold,)
    return contributions(fold[0]) + contributions(fold[1])


def in_text(fold: Fold, symbol: str = "+", name: str = "x") -> str:
    """Write a fold as an expression: (x0 + x1) + x2."""
    if isinstance(fold, int):
        return f"{name}{fold}"
    left, right = (in_text(part, symbol, name) for part in fold)
    left = left if isinstance(fold[0], int) else f"({left})"
    right = right if isinstance(fold[1], int) else f"({right})"
    return f"{left} {symbol} {right}"
