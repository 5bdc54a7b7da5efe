"""Snapshots of closures: everything that a function's code reads besides its arguments, at one moment."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from operator import is_
from types import FunctionType
from typing import Final, Protocol, runtime_checkable

from tessera.core.placement.mesh_array import MeshArray
from tessera.runtime.arrays.host import as_array, is_array
from tessera.runtime.arrays.interop import is_jax, is_torch
from tessera.runtime.memory.device_arrays import is_on_device

MOST_BYTES: Final = 1 << 20
"""Bytes of an array's elements that are compared at every call, where a function may have read them as numbers."""


@runtime_checkable
class ClosesOver(Protocol):
    """An object that runs code of its user's."""

    @property
    def closes_over(self) -> tuple[object, ...]:
        """The functions and other objects that it was made with."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """An object that is equal to itself only; it is kept alive, so that no other one takes its place."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(slots=True)
class Guards:
    """Lookups and containers, with what they gave and held.

    getters, names, values: `getter(name)` gave `value`; functions: they had the code that they have now
    sequences, mappings, sets: with their elements
    """

    getters: list[Callable[..., object]] = field(default_factory=list[Callable[..., object]])
    names: list[object] = field(default_factory=list[object])
    values: list[object] = field(default_factory=list[object])
    functions: list[FunctionType] = field(default_factory=list[FunctionType])
    sequences: list[tuple[list[object], tuple[object, ...]]] = field(
        default_factory=list[tuple[list[object], tuple[object, ...]]]
    )
    mappings: list[tuple[dict[object, object], tuple[object, ...], tuple[object, ...]]] = field(
        default_factory=list[tuple[dict[object, object], tuple[object, ...], tuple[object, ...]]]
    )
    sets: list[tuple[object, object]] = field(default_factory=list[tuple[object, object]])

    def comparison(self) -> Callable[[], bool]:
        """Return a function that tells whether every lookup gives, and every container holds, the same objects."""
        guards = tuple(zip(self.getters, self.names, self.values, strict=True))
        functions = tuple([(each, each.__code__) for each in self.functions])

        def lookups() -> bool:
            try:
                for getter, name, value in guards:  # a loop: `all` and `map` take twice as long, in every launch
                    if getter(name) is not value:
                        return False
            except (AttributeError, LookupError, ValueError):  # the name was deleted
                return False
            for function, code in functions:  # noqa: SIM110 - as above
                if function.__code__ is not code:
                    return False
            return True

        if not (self.sequences or self.mappings or self.sets):
            return lookups
        return lambda: lookups() and self._containers()

    def _containers(self) -> bool:
        for sequence, items in self.sequences:
            if len(sequence) != len(items) or not all(map(is_, sequence, items)):
                return False
        for mapping, keys, items in self.mappings:
            if len(mapping) != len(keys) or not (all(map(is_, mapping, keys)) and _same(mapping.values(), items)):
                return False
        return all(each == copy for each, copy in self.sets)


def _same(values: Iterable[object], items: tuple[object, ...]) -> bool:
    return all(map(is_, values, items))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Closure:
    """The closure of a function at one moment.

    key: equal for closures that make the same program of the function; arrays: in the order in which they were reached
    unchanged: whether the function's code would read the same objects now; complete: False where there is more than is
      looked at, and it is never said to be unchanged
    """

    key: Hashable
    arrays: tuple[object, ...]
    unchanged: Callable[[], bool]
    complete: bool


def never() -> bool:
    """Say of what cannot be compared that it is not as it was."""
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """The elements of arrays that a function may have read as numbers, not as operands.

    copies: arrays with their bytes, or what else tells of changes; complete: False where nothing does
    """

    copies: tuple[tuple[object, object], ...]
    complete: bool

    @classmethod
    def of(cls, arrays: Iterable[object]) -> "Elements":
        """Remember the elements of arrays."""
        copies: list[tuple[object, object]] = []
        for each in arrays:
            content = _content(each)
            if content is None:
                return cls((), complete=False)
            copies.append((each, content))
        return cls(tuple(copies), complete=True)

    def unchanged(self) -> bool:
        """Return whether the arrays hold what they held."""
        return self.complete and all(_content(array) == content for array, content in self.copies)

    def equal(self, other: "Elements") -> bool:
        """Return whether other arrays hold the same elements."""
        if not (self.complete and other.complete) or len(self.copies) != len(other.copies):
            return False
        return all(a[1] == b[1] for a, b in zip(self.copies, other.copies, strict=True))


def _content(array: object) -> object:
    """Return what changes when elements of an array do; None where that is not known."""
    if is_jax(array):  # its elements never change
        return Identity(array)
    if not isinstance(array, MeshArray) and is_array(array) and not is_on_device(array):
        values = as_array(array, "a closed-over array")
        if values.nbytes <= MOST_BYTES and not values.dtype.hasobject:
            return values.tobytes()
    if is_torch(array):
        return (Identity(array), getattr(array, "_version"))  # noqa: B009 - torch counts its changes in a private name
    return None
