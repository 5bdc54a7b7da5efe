"""Nested arguments and results as flat lists: tuples, lists, named tuples, dicts and dataclasses of arrays."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.trace import is_operand
from tessera.graphs.tracer import Tracer
from tessera.runtime.arrays.host import plain


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of an array."""


@dataclass(frozen=True, slots=True)
class Static:
    """A value that is part of the program: a number, a string, a function.  type: 1, 1.0 and True are three."""

    value: Hashable
    type: type

    @classmethod
    def of(cls, value: object) -> "Static":
        """Return the static part that is `value`.  Raises CannotTrace for what cannot be compared."""
        found = plain(value)
        try:
            hash(found)
        except TypeError:
            raise CannotTrace(
                f"{type(found).__name__} is neither an array nor something that stays the same",
                hint="pass arrays, numbers, strings, or tuples, lists, dicts and dataclasses of them",
            ) from None
        return cls(cast("Hashable", found), type(found))


@dataclass(frozen=True, slots=True)
class Branch:
    """A container.  kind: its type; names: the keys of a dict, the fields of a dataclass."""

    kind: type[object]
    names: tuple[Hashable, ...]
    children: tuple["Structure", ...]


Structure = Leaf | Static | Branch
"""The shape of an argument without its arrays; equal structures are captured the same way."""


def flatten(value: object, leaves: list[object]) -> Structure:
    """Append the arrays in `value` to `leaves`, and return where they stood."""
    if isinstance(value, Tracer) or is_operand(value):
        leaves.append(value)
        return Leaf()
    if isinstance(value, tuple | list):
        items = cast("Sequence[object]", value)
        return Branch(cast("type[object]", type(items)), (), tuple([flatten(each, leaves) for each in items]))
    if isinstance(value, dict):
        table = cast("Mapping[Hashable, object]", value)
        return Branch(dict, tuple(table), tuple([flatten(each, leaves) for each in table.values()]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value))
        return Branch(type(value), names, tuple([flatten(getattr(value, name), leaves) for name in names]))
    return Static.of(value)


def unflatten(structure: Structure, leaves: Callable[[], object]) -> object:
    """Return what `flatten` took apart, with the arrays that `leaves` gives, one after the other."""
    if isinstance(structure, Leaf):
        return leaves()
    if isinstance(structure, Static):
        return structure.value
    children = [unflatten(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.names, children, strict=True))
    make = cast("Callable[..., object]", structure.kind)
    if structure.names:  # a dataclass
        return make(**dict(zip(map(str, structure.names), children, strict=True)))
    return make(*children) if hasattr(make, "_fields") else make(children)  # a named tuple takes them one by one


def leaves_in(structure: Structure) -> int:
    """Return the number of arrays."""
    if isinstance(structure, Branch):
        return sum(map(leaves_in, structure.children))
    return int(isinstance(structure, Leaf))


def names_of(structure: Structure, name: str) -> list[str]:
    """Return a name for each array: `params.w1`, `xs[0]`."""
    if isinstance(structure, Leaf):
        return [name]
    if isinstance(structure, Static):
        return []
    labels = [f"_{label}" for label in structure.names] or [f"_{n}" for n in range(len(structure.children))]
    return [
        each for label, child in zip(labels, structure.children, strict=True) for each in names_of(child, name + label)
    ]
