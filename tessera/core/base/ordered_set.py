"""An immutable set that is iterated in the order in which its elements were first named."""

from collections.abc import Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeVar, cast

T = TypeVar("T", bound=Hashable)
S = TypeVar("S", bound=Hashable)


class OrderedSet(AbstractSet[T]):
    """A set for a compiler: what is emitted element by element comes out the same in every process.

    The order of a `frozenset` follows from hashes, which differ between processes for strings, and for objects whose
    hash is their address.  Operators are those of a set, and equality does not depend on order.
    """

    __slots__ = ("_elements",)

    def __init__(self, elements: Iterable[T] = ()) -> None:
        self._elements = dict.fromkeys(elements)

    def __contains__(self, element: object) -> bool:
        return element in self._elements

    def __iter__(self) -> Iterator[T]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __hash__(self) -> int:
        return self._hash()

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._elements)})"

    def __or__(self, other: AbstractSet[S]) -> "OrderedSet[T | S]":
        return OrderedSet((*self, *other))

    def __sub__(self, other: AbstractSet[object]) -> "OrderedSet[T]":
        return OrderedSet(element for element in self if element not in other)

    def __and__(self, other: AbstractSet[object]) -> "OrderedSet[T]":
        """Return the elements of the smaller one that the larger one has, as `frozenset` does."""
        few, many = (self, other) if len(self) < len(other) else (cast("AbstractSet[T]", other), self)
        return OrderedSet(element for element in few if element in many)

    def union(self, *others: Iterable[T]) -> "OrderedSet[T]":
        """Return the elements of all, these first."""
        return OrderedSet(element for one in (self, *others) for element in one)

    def difference(self, *others: Iterable[T]) -> "OrderedSet[T]":
        """Return the elements that are in none of the others."""
        return self - OrderedSet(element for one in others for element in one)

    def intersection(self, other: Iterable[T]) -> "OrderedSet[T]":
        """Return the elements that are in the other, too."""
        return self & OrderedSet(other)
