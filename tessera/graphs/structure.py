"""Nested arguments and results as flat lists: tuples, lists, named tuples, dicts and dataclasses of arrays."""

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias, cast

import numpy as np

from tessera.core.errors.catalog import CannotTrace
from tessera.core.graph.expr import Number
from tessera.core.graph.numerics import Numerics
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.mesh_array import MeshArray
from tessera.core.placement.placement import Placement
from tessera.graphs.operands.host_number import HostNumber
from tessera.graphs.scaled import Scaled
from tessera.graphs.trace import is_operand
from tessera.graphs.tracer import Tracer
from tessera.runtime.arrays.host import plain
from tessera.runtime.arrays.interop import is_torch

_FRACTIONS: Final[tuple[type, ...]] = (float, complex, np.floating)
_NAN: Final[dict[str, object]] = {}
"""One object for each number that is not equal to itself, by its text."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of an array."""


@dataclass(frozen=True, slots=True)
class MeshLeaf(Leaf):
    """The place of an array that lies on a mesh."""

    mesh: Mesh
    placement: Placement

    @classmethod
    def of(cls, array: MeshArray) -> "MeshLeaf":
        """Return the place of an array."""
        return cls(array.mesh, array.type.placement)


@dataclass(frozen=True, slots=True)
class Static:
    """A value that is part of the program: a number, a string, a function.

    type: 1, 1.0 and True are three; text: of a float: 0.0 and -0.0 are two
    """

    value: Hashable
    type: type
    text: str = ""

    @classmethod
    def of(cls, value: object) -> "Static":
        """Return the static part that is `value`.  Raises CannotTrace for what cannot be compared."""
        static = _number_kept(value)
        try:
            hash(static)
        except TypeError:
            raise CannotTrace(
                f"{type(static).__name__} is neither an array nor something that stays the same",
                hint="pass arrays, numbers, strings, or tuples, lists, dicts and dataclasses of them",
            ) from None
        text = repr(static) if issubclass(type(static), _FRACTIONS) else ""
        if "nan" in text:  # it is equal to nothing; in a tuple, to the same object
            static = _NAN.setdefault(text, static)
        return cls(cast("Hashable", static), type(static), text)


@dataclass(frozen=True, slots=True, eq=False)
class NumberLeaf(Static):
    """A leaf for a Python number that varies from call to call.

    value: its stand-in while the function is captured; position: among the varying numbers
    """

    position: int = 0

    @classmethod
    def at(cls, position: int, class_: type) -> "NumberLeaf":
        """Return the leaf of an int or a float."""
        return cls(HostNumber.argument(position, class_), class_, "", position)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberLeaf) and (self.type, self.position) == (other.type, other.position)

    def __hash__(self) -> int:
        return hash((self.type, self.position))


def _number_kept(value: object) -> object:
    """Return a number as Python has it; NumPy's floats as they are, with the dtype that they have on their own."""
    return cast("object", value) if isinstance(value, np.floating) else plain(value)


@dataclass(frozen=True, slots=True)
class Branch:
    """A container.  kind: its type; names: the keys of a dict, the fields of a dataclass."""

    kind: type[object]
    names: tuple[Hashable, ...]
    children: tuple["Structure", ...]


Structure = Leaf | Static | Branch
"""The shape of an argument without its arrays; equal structures are captured the same way."""


_LEAF: Final = Leaf()
_ARRAYS: Final[set[type]] = {np.ndarray, Tracer}
"""Classes whose objects are arrays, as far as they were seen."""
_MOST_CLASSES: Final = 64
_NUMBERS: Final = frozenset({int, float, complex, bool, str, bytes, type(None)})


def flatten(value: object, leaves: list[object]) -> Structure:
    """Append the arrays in `value` to `leaves`, and return where they stood."""
    kind = type(value)
    if kind in _ARRAYS:
        leaves.append(value)
        return _LEAF
    if kind is dict:
        table = cast("Mapping[Hashable, object]", value)
        return Branch(dict, tuple(table), tuple([flatten(each, leaves) for each in table.values()]))
    if kind is list or kind is tuple:
        items = cast("Sequence[object]", value)
        return Branch(kind, (), tuple([flatten(each, leaves) for each in items]))
    if kind is HostNumber:  # of a capture around this one: whatever compares it needs the number
        return Static(cast("Hashable", value), kind)
    return _flatten_other(value, leaves)


def _flatten_other(value: object, leaves: list[object]) -> Structure:
    """Flatten what is no array of NumPy's, and no plain container."""
    if isinstance(value, MeshArray):
        leaves.append(value)
        return MeshLeaf.of(value)
    if isinstance(value, Tracer) or is_operand(value):
        if is_torch(value) and len(_ARRAYS) < _MOST_CLASSES:
            _ARRAYS.add(type(value))
        leaves.append(value)
        return _LEAF
    if isinstance(value, tuple | list):
        items = cast("Sequence[object]", value)
        return Branch(cast("type[object]", type(items)), (), tuple([flatten(each, leaves) for each in items]))
    if isinstance(value, dict):
        table = cast("Mapping[Hashable, object]", value)
        return Branch(dict, tuple(table), tuple([flatten(each, leaves) for each in table.values()]))
    if isinstance(value, Numerics):
        return Static.of(value)  # as it is: its dtypes are compared by identity
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
        return Branch(type(value), names, tuple([flatten(getattr(value, name), leaves) for name in names]))
    return Static.of(value)


Matcher: TypeAlias = Callable[[object, list[object]], bool]
"""Appends what stands where arrays and varying numbers are in a value that is arranged in one way; False for others."""


def matcher(structure: Structure) -> Matcher:
    """Return what takes values apart that are arranged like the one that this structure is of, and no others.

    It compares, and makes nothing anew.  What stands in the places of arrays may be anything: the caller looks at it.
    """
    if isinstance(structure, Leaf):
        return _append
    if isinstance(structure, NumberLeaf):
        return _matcher_of_number(structure.type)
    if isinstance(structure, Static) and structure.type in (int, bool, str, type(None)):
        return _matcher_of_static(structure.value, structure.type)
    if isinstance(structure, Branch) and structure.kind in (dict, list, tuple):
        inner = [matcher(child) for child in structure.children]
        flat = all(each is _append for each in inner)
        if structure.kind is dict:
            return _matcher_of_dict(structure.names, inner, flat=flat)
        return _matcher_of_sequence(structure.kind, inner, flat=flat)

    def match(value: object, leaves: list[object]) -> bool:
        try:
            return flatten(value, leaves) == structure
        except CannotTrace:  # which the call that looks at everything says
            return False

    return match


def _append(value: object, leaves: list[object]) -> bool:
    leaves.append(value)
    return True


def _matcher_of_number(kind: type) -> Matcher:
    def match(value: object, leaves: list[object]) -> bool:
        if type(value) is not kind:
            return False
        leaves.append(value)
        return True

    return match


def _matcher_of_static(known: object, kind: type) -> Matcher:
    def match(value: object, leaves: list[object]) -> bool:
        del leaves
        return type(value) is kind and value == known

    return match


def _matcher_of_dict(names: tuple[Hashable, ...], inner: Sequence[Matcher], *, flat: bool) -> Matcher:
    def match(value: object, leaves: list[object]) -> bool:
        if type(value) is not dict:
            return False
        table = cast("dict[Hashable, object]", value)
        if tuple(table) != names:
            return False
        if flat:
            leaves.extend(table.values())
            return True
        return all(each(part, leaves) for each, part in zip(inner, table.values(), strict=True))

    return match


def _matcher_of_sequence(kind: type[object], inner: Sequence[Matcher], *, flat: bool) -> Matcher:
    count = len(inner)

    def match(value: object, leaves: list[object]) -> bool:
        if type(value) is not kind:
            return False
        items = cast("Sequence[object]", value)
        if len(items) != count:
            return False
        if flat:
            leaves.extend(items)
            return True
        return all(each(part, leaves) for each, part in zip(inner, items, strict=True))

    return match


def unflatten(structure: Structure, leaves: Callable[[], object]) -> object:
    """Return what `flatten` took apart, with the arrays that `leaves` gives, one after the other."""
    if isinstance(structure, Leaf):
        return leaves()
    if isinstance(structure, Static):
        return structure.value
    children = [leaves() if child is _LEAF else unflatten(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.names, children, strict=True))
    make = cast("Callable[..., object]", structure.kind)
    if structure.names:  # a dataclass
        return make(**dict(zip(map(str, structure.names), children, strict=True)))
    return make(*children) if hasattr(make, "_fields") else make(children)  # a named tuple takes them one by one


def numerics_of(structure: Structure) -> list[Numerics | None]:
    """Return for each array the numerics that it holds the codes of, None for others."""
    if isinstance(structure, Leaf):
        return [None]
    if isinstance(structure, Static):
        return []
    found = [each for child in structure.children for each in numerics_of(child)]
    if structure.kind is Scaled:
        numerics = unflatten(structure.children[structure.names.index("numerics")], lambda: None)
        found[0] = cast("Numerics", numerics)
    return found


def placed_leaves(structure: Structure) -> list[MeshLeaf | None]:
    """Return for each array where it lies on a mesh, None for others."""
    if isinstance(structure, Leaf):
        return [structure if isinstance(structure, MeshLeaf) else None]
    if isinstance(structure, Static):
        return []
    return [each for child in structure.children for each in placed_leaves(child)]


def numbers_of(structure: Structure) -> list[Static]:
    """Return the Python numbers among the static parts, in order."""
    if isinstance(structure, Static):
        return [structure] if structure.type in (int, float) else []
    if isinstance(structure, Leaf):
        return []
    return [each for child in structure.children for each in numbers_of(child)]


def with_number_leaves(structure: Structure, varying: Collection[int]) -> Structure:
    """Return the structure with leaves in the place of the numbers that `varying` counts, see `numbers_of`."""
    numbers, positions = count(), count()

    def changed(part: Structure) -> Structure:
        if isinstance(part, Branch):
            return replace(part, children=tuple([changed(child) for child in part.children]))
        if isinstance(part, Static) and part.type in (int, float) and next(numbers) in varying:
            return NumberLeaf.at(next(positions), part.type)
        return part

    return changed(structure)


def numbers_in(general: Structure, structure: Structure) -> list[Number] | None:
    """Return the numbers of a structure where another one has leaves for them; None where it differs in more."""
    numbers: list[Number] = []

    def matches(one: Structure, other: Structure) -> bool:
        if isinstance(one, NumberLeaf):
            if not isinstance(other, Static) or other.type is not one.type:
                return False
            numbers.append(cast("Number", other.value))
            return True
        if isinstance(one, Branch) and isinstance(other, Branch):
            alike = (one.kind, one.names, len(one.children)) == (other.kind, other.names, len(other.children))
            return alike and all(map(matches, one.children, other.children))
        return one == other

    return numbers if matches(general, structure) else None


def static_objects(structure: Structure) -> list[object]:
    """Return the parts of the program that may read something themselves: functions and other objects, no numbers."""
    if isinstance(structure, Leaf):
        return []
    if isinstance(structure, Static):
        return [] if structure.type in _NUMBERS else [structure.value]
    return [each for child in structure.children for each in static_objects(child)]


def number_places(structure: Structure) -> list[bool]:
    """Return a flag for each leaf that a matcher appends: whether it is a number."""
    if isinstance(structure, Branch):
        return [each for child in structure.children for each in number_places(child)]
    return [isinstance(structure, NumberLeaf)] if isinstance(structure, Leaf | NumberLeaf) else []


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
