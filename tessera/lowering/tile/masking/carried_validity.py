"""Pack what exists of a tile into values of their own, which loops and branches carry along with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.ordered_set import OrderedSet
from tessera.core.mlir import ir
from tessera.lowering.analysis.affine_forms import affine_form
from tessera.lowering.analysis.valid_elements import MASK, WHOLE, Flags, Item, Limit, Part, ValidElements
from tessera.lowering.tile.masking.mask_values import MaskBuilder

UPPER: Final = "upper"
LOWER: Final = "lower"
FLAGS: Final = "flags"


@dataclass(slots=True)
class CarriedValidity:
    """The values that say what exists of tiles of `shape`, one a piece: a place, and what is said of it.

    An axis has an upper limit, a lower one, and flags for anything else; the tile as a whole and the mask have flags.
    """

    shape: tuple[int, ...]
    pieces: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def take(self, found: ValidElements) -> bool:
        """Add pieces for everything that `found` says; return whether some were missing."""
        wanted = {_piece(item) for item in found.items}
        new = sorted(wanted.difference(self.pieces))
        self.pieces += new
        return bool(new)

    @property
    def types(self) -> list[ir.Type]:
        """Return the type of each piece."""
        flag, index = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
        shapes = [list(self._shape(place)) for place, _ in self.pieces]
        return [
            ir.RankedTensorType.get(shape, flag) if kind == FLAGS else index
            for shape, (_, kind) in zip(shapes, self.pieces, strict=True)
        ]

    def packed(self, masks: MaskBuilder, found: ValidElements) -> list[ir.Value]:
        """Return the values, computed by `masks`."""
        values: list[ir.Value] = []
        for place, kind in self.pieces:
            parts = [part for where, part in found.items if where == place and _piece((where, part))[1] == kind]
            if kind == FLAGS:
                values.append(masks.flags(self._shape(place), [(_local(place), part) for part in parts]))
            else:
                values.append(masks.limit([part for part in parts if isinstance(part, Limit)], upper=kind == UPPER))
        return values

    def unpacked(self, values: Sequence[ir.Value]) -> ValidElements:
        """Return what exists of the tile, from the values that `packed` made."""
        items = ((place, self._part(place, kind, v)) for (place, kind), v in zip(self.pieces, values, strict=True))
        return ValidElements(self.shape, OrderedSet(items))

    def _part(self, place: int, kind: str, value: ir.Value) -> Part:
        if kind == FLAGS:
            return Flags("given", self._shape(place), (value,))
        return Limit(affine_form(value), kind == UPPER, fixed=False, start=None, end=value)

    def _shape(self, place: int) -> tuple[int, ...]:
        return self.shape if place == MASK else (1,) if place == WHOLE else (self.shape[place],)


def _piece(item: Item) -> tuple[int, str]:
    place, part = item
    if isinstance(part, Flags) or part.fixed or place == WHOLE:
        return place, FLAGS
    return place, UPPER if part.upper else LOWER


def _local(place: int) -> int:
    """Return the place in a tile that has nothing but flags of one place."""
    return place if place in (MASK, WHOLE) else 0
