"""A cache of launch recipes: the choices that a function of the library made for arrays of one kind, for later calls.

Which variant of which kernel, on which views of the arrays, depends on everything about these but where they lie; that
only decides whether the result touches an operand.  Deciding takes 100 microseconds and more, finding it again 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeGuard, TypeVar

import numpy as np

from tessera.core.settings import Settings, current
from tessera.kernels.kernel import Kernel
from tessera.ops.recipes.launch_recipe import Launch, LaunchRecipe, ScheduleArguments
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.interop import is_cupy, is_torch
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import CupyArray, TorchTensor
from tessera.runtime.memory.operands import Operand, as_result, new_array
from tessera.runtime.memory.owned import DeviceArray

A = TypeVar("A")
T = TypeVar("T")
Key: TypeAlias = tuple[object, ...]
Arrays: TypeAlias = Sequence[Any]  # a call's operands and its result, of any library, or None for one that is left out
Reader: TypeAlias = Callable[[Any], tuple[Key, int]]  # of arrays of the one type that it is found by

_ALIGNMENT: Final = 16
"""Bytes: what of an array's address matters to its kernel, see `rows_aligned`."""
_KEPT: Final = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One argument of a launch: an array of the call by its number, as it lies, turned, or in another shape."""

    number: int
    turned: bool = False
    shape: tuple[int, ...] | None = None

    def of(self, arrays: Arrays) -> object:
        """Return the argument, of the arrays of a call."""
        array = arrays[self.number]
        if self.turned:
            return array.T
        return array if self.shape is None or array.shape == self.shape else array.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Recipe(Generic[A]):
    """One launch on arrays of one kind, of which the last is the result.

    parts: the kernel's arguments, of arrays and numbers
    reaches: of each array, where its bytes begin and end, from its address on; None for one that is left out
    make: makes the result beside the first array; disjoint: whether the result must touch no other array
    """

    kernel: Kernel
    parts: tuple[Part | float, ...]
    reaches: tuple[tuple[int, int] | None, ...]
    make: Callable[[A], A]
    disjoint: bool

    def arguments(self, arrays: Arrays) -> tuple[object, ...]:
        """Return the kernel's arguments."""
        return tuple(part.of(arrays) if isinstance(part, Part) else part for part in self.parts)

    def fits(self, places: Sequence[int]) -> bool:
        """Return whether a result that is given touches no other array."""
        mine = self.reaches[-1]
        if not self.disjoint or mine is None or not places[-1]:
            return True
        start, end = places[-1] + mine[0], places[-1] + mine[1]
        for place, reach in zip(places[:-1], self.reaches, strict=False):
            if reach is not None and place + reach[0] < end and start < place + reach[1]:
                return False
        return True

    def run(self, arrays: Arrays, stream: object) -> A:
        """Launch, and return the result."""
        result = arrays[-1]
        if result is None:
            result = self.make(arrays[0])
            arrays = (*arrays[:-1], result)
        if stream is None:
            self.kernel(*self.arguments(arrays))
        else:
            self.kernel.on(stream)(*self.arguments(arrays))
        return result


def single_launch(
    kernel: Kernel, parts: Sequence[Part | float], operands: Sequence[Operand[object] | None], result: Operand[A], *,
    disjoint: bool = False,
) -> LaunchRecipe[A]:  # fmt: skip
    """Make the recipe of one launch on `operands`; the result is an array of the library of the first."""
    like = operands[0]
    assert like is not None
    arrays = (*operands, result)

    def make(first: A) -> A:
        return new_array(first, result.shape, result.dtype, on_device=like.on_device)

    recipe = Recipe(kernel, tuple(parts), tuple(map(_reach, arrays)), make, disjoint)
    launch = Launch(kernel, recipe.arguments([None if array is None else array.shapely for array in arrays]))
    return LaunchRecipe((launch,), lambda: as_result(result, like), recipe)


def repeated(
    what: Key, arrays: tuple[object, ...], how: ScheduleArguments, prepare: Callable[[], LaunchRecipe[T]]
) -> T:  # fmt: skip
    """Run the recipe of an earlier call on arrays like these, or else the one that `prepare` gives.

    what: the function, and its other arguments besides `how`; arrays: the last one is the result, or None
    """
    stream = how.get("stream")
    key, places = _key(what, arrays, how)
    if _Known.settings is not (settings := current()):
        _Known.settings, _Known.recipes = settings, {}
    found = None if key is None else _Known.recipes.get(key)
    if found is not None and found.fits(places):
        return found.run(arrays, stream)
    prepared = prepare()
    if key is not None and _is_recipe(prepared.recipe):
        if len(_Known.recipes) >= _KEPT:
            _Known.recipes.clear()
        _Known.recipes[key] = prepared.recipe
    return prepared.run(stream)


def _is_recipe(value: object) -> TypeGuard[Recipe[object]]:
    return isinstance(value, Recipe)


class _Known:
    """Recipes by what they are for, under the settings in force when they were made."""

    settings: Settings | None = None
    recipes: dict[Key, Recipe[Any]] = {}  # noqa: RUF012 - the process has one, for results of every type


def _key(what: Key, arrays: Sequence[object], how: Mapping[str, object]) -> tuple[Key | None, list[int]]:
    """Return the key of a call, and its arrays' addresses; None where an array has to be inspected in full."""
    found: list[object] = [*what]
    places: list[int] = []
    for array in arrays:
        kind = type(array)
        read = _READERS.get(kind) or _reader(array)
        if read is None:
            return None, places
        facts, place = read(array)
        places.append(place)
        found += (kind, facts, place % _ALIGNMENT == 0)
    for name, value in how.items():
        if name != "stream":
            found += (name, repr(value))
    return tuple(found), places


def _nothing(_: None) -> tuple[Key, int]:
    return (), 0


def _numpy(array: AnyArray) -> tuple[Key, int]:
    return (array.shape, array.strides, array.dtype), address(array)


def _torch(tensor: TorchTensor) -> tuple[Key, int]:
    special = tensor.is_neg() or tensor.requires_grad  # which may be a mistake
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), special), tensor.data_ptr()


def _cupy(array: CupyArray) -> tuple[Key, int]:
    memory = array.data
    return (array.shape, array.strides, array.dtype, memory.device_id), memory.ptr


def _own(array: DeviceArray) -> tuple[Key, int]:
    return (array.layout, array.device), array.address


_READERS: Final[dict[type, Reader]] = {
    type(None): _nothing, np.ndarray: _numpy, DeviceArray: _own,
}  # fmt: skip
"""Readers by type: what tells arrays apart, and their address."""


def _reader(array: object) -> Reader | None:
    """Return the reader of a type that was not met before."""
    found = _torch if is_torch(array) else _cupy if is_cupy(array) and hasattr(array, "data") else None
    if found is not None:
        _READERS[type(array)] = found
    return found


def _reach(array: Operand[object] | None) -> tuple[int, int] | None:
    if array is None or not array.view.size:
        return None
    steps = [(extent - 1) * stride for extent, stride in zip(array.view.shape, array.view.strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + array.view.itemsize
