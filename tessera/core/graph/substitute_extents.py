"""Put numbers in the place of symbolic extents, in graphs, plans and everything that is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from tessera.core.graph.extents import Extent, Symbols

T = TypeVar("T")


class Substitution:
    """One value for each unknown of some symbols (see `Symbols.values`).

    What holds an extent is made anew, once: two graphs with a common node have one afterwards.
    """

    def __init__(self, values: Sequence[int]) -> None:
        self.values = values
        self._made: dict[int, tuple[object, object]] = {}

    def __call__(self, each: T) -> T:
        """Return an object with numbers for extents; itself where it has none."""
        return cast("T", self._of(each))

    def _of(self, each: object) -> object:
        if isinstance(each, Extent):
            return Symbols.value_of(each, self.values)
        if each is None or isinstance(each, str | int | float):
            return each
        known = self._made.get(id(each))
        if known is None:
            known = self._made[id(each)] = each, self._anew(each)  # the object is kept, so that its number is its own
        return known[1]

    def _anew(self, each: object) -> object:
        if isinstance(each, tuple | list | frozenset):
            parts = [self._of(part) for part in cast("Sequence[object]", each)]
            changed = any(a is not b for a, b in zip(cast("Sequence[object]", each), parts, strict=True))
            return type(cast("tuple[object]", each))(parts) if changed else cast("object", each)
        if isinstance(each, Mapping):
            table = cast("Mapping[object, object]", each)
            found = {self._of(key): self._of(value) for key, value in table.items()}
            same = all(a is c and b is d for (a, b), (c, d) in zip(table.items(), found.items(), strict=True))
            return table if same else found
        if is_dataclass(each) and not isinstance(each, type):
            old = {field.name: cast("object", getattr(each, field.name)) for field in fields(each) if field.init}
            new = {name: self._of(value) for name, value in old.items()}
            return replace(each, **new) if any(new[name] is not value for name, value in old.items()) else each
        return each
