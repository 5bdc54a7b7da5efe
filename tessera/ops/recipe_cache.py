"""What a function of the library decided for arrays of one kind, to do it again without looking.

Which variant of which kernel, on which views of the arrays, depends on everything about these but where they lie; that
only decides whether the result touches an operand.  Deciding takes 100 microseconds and more, finding it again 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from tessera.core.settings import Settings, current
from tessera.kernels.kernel import Kernel
from tessera.ops.launch_recipe import Launch, LaunchRecipe
from tessera.ops.operands import Operand, as_result, new_array
from tessera.runtime.arrays.interop import is_torch, library_of
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.owned import DeviceArray

Key: TypeAlias = tuple[object, ...]

_ALIGNMENT: Final = 16
"""Bytes: what of an array's address matters to its kernel, see `rows_aligned`."""
_KEPT: Final = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One argument of a launch: an array of the call by its number, as it lies, turned, or in another shape."""

    number: int
    turned: bool = False
    shape: tuple[int, ...] | None = None

    def of(self, arrays: Sequence[Any]) -> Any:
        """The argument, of the arrays of a call."""
        array = arrays[self.number]
        if self.turned:
            return array.T
        return array if self.shape is None or array.shape == self.shape else array.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One launch on arrays of one kind, of which the last is the result.

    parts: the kernel's arguments, of arrays and numbers
    reaches: of each array, where its bytes begin and end, from its address on; None for one that is left out
    make: makes the result beside the first array; apart: whether the result must touch no other array
    """

    kernel: Kernel
    parts: tuple[Part | float, ...]
    reaches: tuple[tuple[int, int] | None, ...]
    make: Callable[[Any], Any]
    apart: bool

    def arguments(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What the kernel is called with."""
        return tuple(part.of(arrays) if isinstance(part, Part) else part for part in self.parts)

    def fits(self, places: Sequence[int]) -> bool:
        """Whether a result that is given touches no other array."""
        mine = self.reaches[-1]
        if not self.apart or mine is None or not places[-1]:
            return True
        start, end = places[-1] + mine[0], places[-1] + mine[1]
        for place, reach in zip(places[:-1], self.reaches, strict=False):
            if reach is not None and place + reach[0] < end and start < place + reach[1]:
                return False
        return True

    def run(self, arrays: tuple[Any, ...], stream: object) -> Any:
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
    kernel: Kernel, parts: Sequence[Part | float], operands: Sequence[Operand | None], result: Operand, *,
    apart: bool = False,
) -> LaunchRecipe[Any]:  # fmt: skip
    """A function that is one launch, on `operands`, of which the first says what the result is an array of."""
    like = operands[0]
    assert like is not None
    arrays = (*operands, result)

    def make(first: Any) -> Any:
        return new_array(first, result.shape, result.dtype, on_device=like.on_device)

    recipe = Recipe(kernel, tuple(parts), tuple(map(_reach, arrays)), make, apart)
    launch = Launch(kernel, recipe.arguments([None if array is None else array.shapely for array in arrays]))
    return LaunchRecipe((launch,), lambda: as_result(result, like), recipe)


def repeated(
    what: Key, arrays: tuple[Any, ...], how: Mapping[str, Any], prepare: Callable[[], LaunchRecipe[Any]]
) -> Any:  # fmt: skip
    """Do what a function has done on arrays like these, or else what `prepare` gives.

    what: the function, and what it was told besides `how`; arrays: the last one is the result, or None
    """
    stream = how.get("stream")
    key, places = _key(what, arrays, how)
    if _Known.settings is not (settings := current()):
        _Known.settings, _Known.recipes = settings, {}
    found = None if key is None else _Known.recipes.get(key)
    if found is not None and found.fits(places):
        return found.run(arrays, stream)
    prepared = prepare()
    if key is not None and isinstance(prepared.recipe, Recipe):
        if len(_Known.recipes) >= _KEPT:
            _Known.recipes.clear()
        _Known.recipes[key] = prepared.recipe
    return prepared.run(stream)


class _Known:
    """Recipes by what they are for, under the settings in force when they were made."""

    settings: Settings | None = None
    recipes: dict[Key, Recipe] = {}  # noqa: RUF012 - the process has one


def _key(what: Key, arrays: Sequence[object], how: Mapping[str, Any]) -> tuple[Key | None, list[int]]:
    """What decides about a call, and where its arrays lie; None for arrays that have to be looked at in full."""
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


def _numpy(array: Any) -> tuple[Key, int]:
    return (array.shape, array.strides, array.dtype), address(array)


def _torch(tensor: Any) -> tuple[Key, int]:
    special = tensor.is_neg() or tensor.requires_grad  # which may be a mistake
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), special), tensor.data_ptr()


def _cupy(array: Any) -> tuple[Key, int]:
    memory = array.data
    return (array.shape, array.strides, array.dtype, memory.device_id), memory.ptr


def _own(array: DeviceArray) -> tuple[Key, int]:
    return (array.layout, array.device), array.address


_READERS: Final[dict[type, Callable[[Any], tuple[Key, int]]]] = {
    type(None): _nothing, np.ndarray: _numpy, DeviceArray: _own,
}  # fmt: skip
"""What tells arrays of a type apart, and their address."""


def _reader(array: object) -> Callable[[Any], tuple[Key, int]] | None:
    """The reader of a type that was not met before."""
    found = _torch if is_torch(array) else _cupy if library_of(array) == "cupy" and hasattr(array, "data") else None
    if found is not None:
        _READERS[type(array)] = found
    return found


def _reach(array: Operand | None) -> tuple[int, int] | None:
    if array is None or not array.view.size:
        return None
    steps = [(extent - 1) * stride for extent, stride in zip(array.view.shape, array.view.strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + array.view.itemsize
