"""Describe symbolically which elements of a tile exist: the compiler's side of the rules in `core/program/spec.py`.

A `ValidElements` is a set of conditions, all of which an element that exists meets.  Each has its place: one of the
tile's axes, the tile as a whole, or the mask.  Most are a `Limit`, a bound that an index keeps; `Flags` are computed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from tessera.core.base.ordered_set import OrderedSet
from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.analysis.affine_forms import AffineForm

WHOLE: Final = -1
"""The place of a condition on the whole tile."""
MASK: Final = -2
"""The place of a condition on single elements."""


@dataclass(frozen=True, slots=True)
class Guard:
    """When a condition counts: where the i1 `a` (with `b`: where the index a is less than b) is as `holds` says."""

    a: ir.Value
    b: ir.Value | None
    holds: bool = True

    @property
    def opposite(self) -> "Guard":
        """When it does not."""
        return replace(self, holds=not self.holds)


@dataclass(frozen=True, slots=True)
class Limit:
    """Indices i along an axis with start + i < end (`upper`), or start + i >= end.

    bound: end - start; fixed: the index 0 speaks for all; start: an i64, or None for 0; end: a number, the name of a
    symbol, or an i64; guards: when it counts
    """

    bound: AffineForm
    upper: bool
    fixed: bool
    start: ir.Value | None = field(compare=False)
    end: Index | str | None = field(compare=False)
    guards: OrderedSet[Guard] = field(default_factory=OrderedSet[Guard])

    def implies(self, other: "Limit") -> bool:
        """Return whether what keeps this limit keeps the other; their guards do not count."""
        if (self.upper, self.fixed) != (other.upper, other.fixed):
            return False
        difference = other.bound.constant_difference(self.bound)
        return difference is not None and (difference >= 0 if self.upper else difference <= 0)


@dataclass(frozen=True, slots=True)
class Flags:
    """A condition that is computed, a tile of i1 of `shape`: see `mask_values.py` for what makes each kind of it.

    kind: "given" (a value), "choice" (a condition, and what exists of either choice), "either" (of two), "moved" (an
    operation, its attributes as pairs, and what exists of its operand)
    """

    kind: str
    shape: tuple[int, ...]
    inputs: tuple[Any, ...]  # by kind, see above
    guards: OrderedSet[Guard] = field(default_factory=OrderedSet[Guard])


Part = Limit | Flags
Item = tuple[int, Part]


@dataclass(frozen=True, slots=True)
class ValidElements:
    """The elements that exist of a tile of `shape`: those that meet every item, a place and a condition.

    zeros: items for which the tile holds +0 (or the integer 0) where they are not met
    """

    shape: tuple[int, ...]
    items: OrderedSet[Item] = field(default_factory=OrderedSet[Item])
    zeros: OrderedSet[Item] = field(default_factory=OrderedSet[Item], compare=False)

    def at(self, place: int) -> OrderedSet[Part]:
        """Return the conditions of one place."""
        return OrderedSet(part for where, part in self.items if where == place)

    def without(self, items: Iterable[Item]) -> "ValidElements":
        """Return the same elements without some of the conditions on them."""
        return replace(self, items=self.items.difference(items), zeros=self.zeros.difference(items))

    def known_zero(self, item: Item) -> bool:
        """Return whether the tile holds 0 where `item` is not met."""
        return item in self.zeros


def nested(part: Flags) -> bool:
    """Return whether a condition is computed of conditions that are computed themselves, other than given ones."""
    inner = [one for one in part.inputs if isinstance(one, ValidElements)]
    return any(isinstance(p, Flags) and p.kind != "given" for found in inner for _, p in found.items)


def everything(shape: Sequence[int]) -> ValidElements:
    """Return the valid elements of a tile of which all exist."""
    return ValidElements(tuple(shape))


def made(shape: Sequence[int], items: Iterable[Item], zeros: Iterable[Item] = ()) -> ValidElements:
    """Return the valid elements without items that follow from the others."""
    found = _without_opposites(OrderedSet(items))
    kept = OrderedSet(item for item in found if not any(_follows(item, other) for other in found if other != item))
    return ValidElements(tuple(shape), kept, kept.intersection(zeros))


def _follows(item: Item, other: Item) -> bool:
    """Return whether `item` is met where `other` is."""
    (place, part), (there, stronger) = item, other
    if place != there or not stronger.guards <= part.guards:
        return False
    if replace(part, guards=stronger.guards) == stronger:
        return True
    if not isinstance(part, Limit) or not isinstance(stronger, Limit) or not stronger.implies(part):
        return False
    return not part.implies(stronger) or stronger.guards != part.guards  # of two equal ones, neither


def _without_opposites(items: OrderedSet[Item]) -> OrderedSet[Item]:
    """Join what counts where something holds and what counts where it does not."""
    for place, part in items:
        for guard in part.guards:
            rest = part.guards - {guard}
            other = (place, replace(part, guards=rest | {guard.opposite}))
            if other in items:
                return _without_opposites((items - {(place, part), other}) | {(place, replace(part, guards=rest))})
    return items


def keeps(item: Item, other: Item) -> bool:
    """Return whether what keeps the limit `item` keeps the limit `other`; their guards do not count."""
    (place, part), (there, weaker) = item, other
    return place == there and isinstance(part, Limit) and isinstance(weaker, Limit) and part.implies(weaker)


def guarded(items: Iterable[Item], guard: Guard) -> OrderedSet[Item]:
    """Return the items, each met only where `guard` says so."""
    return OrderedSet((place, replace(part, guards=part.guards | {guard})) for place, part in items)


def merged(a: ValidElements, b: ValidElements, guard: Guard) -> ValidElements:
    """Return the valid elements of a value that is the one of `a` where `guard` says so, else the one of `b`."""
    both = a.items & b.items
    items = (*both, *guarded(a.items - both, guard), *guarded(b.items - both, guard.opposite))
    zeros = (*(both & a.zeros & b.zeros), *guarded(a.zeros - both, guard), *guarded(b.zeros - both, guard.opposite))
    return made(a.shape, items, zeros)


def chosen(
    condition: ir.Value | str, a: ValidElements, b: ValidElements, rest: tuple[ValidElements, ValidElements]
) -> ValidElements:
    """Return the valid elements of a choice, element by element, between two tiles.

    rest: the same of both without what the condition implies already
    """
    if rest[0].items == rest[1].items:
        return replace(rest[0], zeros=rest[0].zeros & rest[1].zeros)
    items: list[Item] = []
    for place in (WHOLE, *range(len(a.shape))):
        first, second = a.at(place), b.at(place)
        common, extent = first & second, () if place == WHOLE else (a.shape[place],)
        items += [(place, part) for part in common]
        if first - common and second - common:
            sides = [ValidElements(extent, OrderedSet((min(place, 0), p) for p in s - common)) for s in (first, second)]
            items.append((place, Flags("either", extent, tuple(sides))))
    items.append((MASK, Flags("choice", a.shape, (condition, *(replace(r, zeros=OrderedSet()) for r in rest)))))
    zeros = [item for item in items if item in a.zeros and item in b.zeros]
    return made(a.shape, items, zeros)


def moved(found: ValidElements, shape: Sequence[int], change: Callable[[Item], Item | None]) -> ValidElements:
    """Return the valid elements of a tile of another shape, each item changed or (None) dropped."""
    pairs = {item: change(item) for item in found.items}
    items = [new for new in pairs.values() if new is not None]
    zeros = [new for old, new in pairs.items() if new is not None and old in found.zeros]
    return made(shape, items, zeros)


def _mask_moved(part: Part, name: str, shape: Sequence[int], *attributes: tuple[str, tuple[int, ...]]) -> Item:
    before = part.shape if isinstance(part, Flags) else ()
    inner = ValidElements(before, OrderedSet([(MASK, part)]))
    return MASK, Flags("moved", tuple(shape), (name, attributes, inner))


def transposed(found: ValidElements, permutation: Sequence[int]) -> ValidElements:
    """Return the valid elements of a transposed tile."""
    shape = [found.shape[axis] for axis in permutation]

    def change(item: Item) -> Item:
        place, part = item
        if place == MASK:
            return _mask_moved(part, "tessera.transpose", shape, ("permutation", tuple(permutation)))
        return (place if place == WHOLE else list(permutation).index(place)), part

    return moved(found, shape, change)


def broadcast(found: ValidElements, shape: Sequence[int]) -> ValidElements:
    """Return the valid elements of a broadcast tile."""

    def change(item: Item) -> Item:
        place, part = item
        if place == MASK:
            return _mask_moved(part, "tessera.broadcast", shape)
        if isinstance(part, Flags) and place != WHOLE and part.shape != (shape[place],):
            inner = ValidElements(part.shape, OrderedSet([(MASK, part)]))
            return place, Flags("moved", (shape[place],), ("tessera.broadcast", (), inner))
        return item

    return moved(found, shape, change)


def reshaped(found: ValidElements, shape: Sequence[int]) -> ValidElements:
    """Return the valid elements of a reshaped tile."""
    places: dict[int, int] = {axis: WHOLE for axis, extent in enumerate(found.shape) if extent == 1}
    joined: list[tuple[list[int], list[int]]] = []
    for old, new in axis_groups(found.shape, shape):
        if len(old) == len(new) == 1:
            places[old[0]] = new[0]
        else:
            joined.append((old, new))

    def change(item: Item) -> Item | None:
        place, part = item
        if place == MASK:
            return _mask_moved(part, "tessera.reshape", shape)
        return item if place == WHOLE else (places[place], part) if place in places else None

    kept = moved(found, shape, change)
    items, zeros = list(kept.items), list(kept.zeros)
    for old, new in joined:
        inner = [(old.index(place), part) for place, part in found.items if place in old]
        if not inner:
            continue
        item = _joined([found.shape[axis] for axis in old], OrderedSet(inner), new, shape)
        items.append(item)
        if all((old[place], part) in found.zeros for place, part in inner):
            zeros.append(item)
    return made(shape, items, zeros)


def _joined(extents: Sequence[int], inner: OrderedSet[Item], new: Sequence[int], shape: Sequence[int]) -> Item:
    """Return the item for conditions on axes that become others: the one axis that they are now, or the mask."""
    box = ValidElements(tuple(extents), inner)
    if len(new) == 1:
        return new[0], Flags("moved", (prod(extents),), ("tessera.reshape", (), box))
    spread = tuple(extent if axis in new else 1 for axis, extent in enumerate(shape))
    small = Flags("moved", spread, ("tessera.reshape", (), box))
    if spread == tuple(shape):
        return MASK, small
    return _mask_moved(small, "tessera.broadcast", shape)


def axis_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return axes of two shapes that hold the same elements: the fewest of each, in order; axes of extent 1 in none."""
    groups: list[tuple[list[int], list[int]]] = []
    left, right = ([axis for axis, extent in enumerate(shape) if extent != 1] for shape in (before, after))
    while left:
        old, new = [left.pop(0)], [right.pop(0)]
        while (sizes := (prod(before[a] for a in old), prod(after[a] for a in new)))[0] != sizes[1]:
            (old if sizes[0] < sizes[1] else new).append((left if sizes[0] < sizes[1] else right).pop(0))
        groups.append((old, new))
    return groups


def reduced(found: ValidElements, axis: int) -> ValidElements:
    """Return the valid elements of a tile that is reduced along an axis, without conditions on it or in the mask."""
    shape = [extent for number, extent in enumerate(found.shape) if number != axis]

    def change(item: Item) -> Item | None:
        place, part = item
        if place in (axis, MASK):
            return None
        return (place - 1 if place > axis else place), part

    return ValidElements(tuple(shape), moved(found, shape, change).items)


def multiplied(a: ValidElements, b: ValidElements) -> ValidElements:
    """Return the valid elements of a product: the rows of the first factor, the columns of the second."""
    items = (*(item for item in a.items if item[0] in (0, WHOLE)), *(item for item in b.items if item[0] in (1, WHOLE)))
    return made((a.shape[0], b.shape[1]), items)


def _transposed(found: ValidElements, op: AnyOp) -> ValidElements:
    return transposed(found, list(ir.DenseI64ArrayAttr(op.attributes["permutation"])))


def _broadcast(found: ValidElements, op: AnyOp) -> ValidElements:
    return broadcast(found, ir.ShapedType(op.results[0].type).shape)


def _reshaped(found: ValidElements, op: AnyOp) -> ValidElements:
    return reshaped(found, ir.ShapedType(op.results[0].type).shape)


SHAPES: Final[dict[str, Callable[[ValidElements, AnyOp], ValidElements]]] = {
    "tessera.transpose": _transposed,
    "tessera.broadcast": _broadcast,
    "tessera.reshape": _reshaped,
}
"""What exists of the result of an operation that only moves elements, from what exists of its operand."""
