"""Check a launch's arguments against an artifact and turn them into facts: addresses, extents, strides, numbers.

`Binder.facts` is the fast path: it answers None for anything unusual and never explains.  `Binder.check` is the slow
one: it converts what can be converted and raises the mistake, with the parameter's place, for what cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import numpy as np

from tessera.core.artifact import Artifact, Binding
from tessera.core.dtypes import DType, bf16
from tessera.core.errors import TesseraError
from tessera.core.mistakes import (
    ArgumentCount,
    ArgumentType,
    ExtentMismatch,
    NotDivisible,
    OverlappingArrays,
    ScalarRange,
)
from tessera.core.program.types import Array, Scalar
from tessera.core.source import Note
from tessera.runtime.arrays import AnyArray, as_array
from tessera.runtime.pointers import address

Number = int | float | bool
Facts = list[Number]

# How `struct` writes a scalar into the low bytes of an 8-byte slot; bf16 is handed over as its bits.
FORMATS: Final = {
    "f64": "d", "f32": "f4x", "f16": "e6x", "bf16": "H6x", "i64": "q", "i32": "i4x", "i16": "h6x", "i8": "b7x",
    "u64": "Q", "u32": "I4x", "u16": "H6x", "u8": "B7x", "bool": "?7x",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Spec:
    """One parameter as the fast path needs it; `base` is where its facts begin."""

    is_array: bool
    dtype: Any
    rank: int
    contiguous: bool
    mutable: bool
    fixed: tuple[tuple[int, int], ...]  # (axis, extent)
    scalar: type
    low: Number
    high: Number
    base: int


class Binder:
    """Binds the arguments of one artifact.

    `scalars` holds the Python type that each parameter's argument must have, where it is a scalar: the artifact may
    have been specialised on it (an unannotated parameter given an int is an i64).  None: what the dtype suggests.
    """

    def __init__(self, artifact: Artifact, scalars: Sequence[type] | None = None) -> None:
        self.artifact = artifact
        self._specs: list[_Spec] = []
        base = 0
        for index, binding in enumerate(artifact.bindings):
            spec = _spec(binding, base, scalars[index] if scalars is not None else None)
            self._specs.append(spec)
            base += _size(binding)
        self.size = base
        self._agreements = self._find_agreements()
        self._arrays = tuple(i for i, spec in enumerate(self._specs) if spec.is_array)
        self._written = tuple(i for i in self._arrays if self._specs[i].mutable)

    def facts(self, arguments: Sequence[Any]) -> Facts | None:
        """Return the facts of `arguments`, in the order `index_of...` counts, or None when anything is unusual."""
        found: Facts = []
        for value, spec in zip(arguments, self._specs, strict=True):
            if spec.is_array:
                if type(value) is not np.ndarray or value.dtype is not spec.dtype:
                    return None
                shape, flags = value.shape, value.flags
                if (
                    len(shape) != spec.rank
                    or (spec.contiguous and not flags.c_contiguous)
                    or (spec.mutable and not flags.writeable)
                    or not flags.aligned
                ):
                    return None
                for axis, extent in spec.fixed:
                    if shape[axis] != extent:
                        return None
                found.append(address(value))
                found += shape
                if not spec.contiguous:
                    found += _element_strides(value)
            elif type(value) is not spec.scalar or not spec.low <= value <= spec.high:
                return None
            else:
                found.append(value if spec.dtype is not bf16 else _bf16_bits(value))
        for first, first_scale, other, other_scale in self._agreements:
            if found[first] * first_scale != found[other] * other_scale:
                return None
        if self._written and self._overlap(found, arguments):
            return None
        return found

    def check(self, arguments: Sequence[object]) -> tuple[Any, ...]:
        """Return `arguments` as NumPy views and Python numbers that `facts` accepts; raise the mistake they make."""
        bindings = self.artifact.bindings
        if len(arguments) != len(bindings):
            raise self._error(ArgumentCount(_count_message(self.artifact, len(arguments)), self.artifact.span))
        converted = [self._convert(value, b, s) for value, b, s in zip(arguments, bindings, self._specs, strict=True)]
        self._check_symbols(converted)
        self._check_overlap(converted)
        return tuple(converted)

    def index_of_address(self, parameter: int) -> int:
        """Where the address (or the value) of a parameter is among the facts."""
        return self._specs[parameter].base

    def index_of_extent(self, parameter: int, axis: int) -> int:
        """Where an extent is among the facts."""
        return self._specs[parameter].base + 1 + axis

    def index_of_stride(self, parameter: int, axis: int) -> int:
        """Where a stride (in elements) is among the facts; only of arrays that need not be contiguous."""
        spec = self._specs[parameter]
        return spec.base + 1 + spec.rank + axis

    def _find_agreements(self) -> tuple[tuple[int, int, int, int], ...]:
        """Pairs of extents that must be equal: every place of a symbol but its first."""
        first: dict[str, tuple[int, int, int]] = {}
        pairs: list[tuple[int, int, int, int]] = []
        for name, parameter, axis, scale in _places(self.artifact):
            index = self.index_of_extent(parameter, axis)
            if name not in first:
                first[name] = (index, scale, parameter)
            elif first[name][:2] != (index, scale):
                pairs.append((*first[name][:2], index, scale))
        return tuple(pairs)

    def _overlap(self, found: Facts, arguments: Sequence[Any]) -> bool:
        """Do the bytes of a written array meet another array's, other than the very same array read in place?"""
        for written in self._written:
            mine = arguments[written]
            start, end = _bounds(mine, found[self._specs[written].base], self._specs[written].contiguous)
            for other in self._arrays:
                if other == written:
                    continue
                theirs, spec = arguments[other], self._specs[other]
                low, high = _bounds(theirs, found[spec.base], spec.contiguous)
                if low < end and start < high and _conflict(mine, theirs, both_written=spec.mutable):
                    return True
        return False

    def _convert(self, value: object, binding: Binding, spec: _Spec) -> object:
        kind = binding.type
        if isinstance(kind, Array):
            array = as_array(value, binding.name, mutable=binding.mutable, span=binding.span)
            return self._check_array(array, binding, kind)
        if isinstance(kind, Scalar):
            return self._check_scalar(value, binding, kind.dtype)
        raise TypeError(f"parameter {binding.name!r} has type {kind}")

    def _check_array(self, array: AnyArray, binding: Binding, kind: Array) -> AnyArray:
        name, span = binding.name, binding.span
        if array.dtype != kind.dtype.numpy:
            hint = f"convert it: {name}.astype(np.{kind.dtype.numpy.name})"
            raise self._error(ArgumentType(f"{name} holds {array.dtype}, it must hold {kind.dtype}", span, hint))
        if array.ndim != len(kind.shape):
            axes = f"{len(kind.shape)} axis" if len(kind.shape) == 1 else f"{len(kind.shape)} axes"
            raise self._error(ArgumentType(f"{name} must have {axes}, it has shape {array.shape}", span))
        if kind.contiguous and not array.flags.c_contiguous:
            hint = f"pass np.ascontiguousarray({name})"
            raise self._error(ArgumentType(f"{name} has gaps or another order; it must be C-contiguous", span, hint))
        for axis, extent in enumerate(kind.shape):
            if isinstance(extent, int) and array.shape[axis] != extent:
                message = f"{name} has {array.shape[axis]} elements along axis {axis}, this kernel is for {extent}"
                raise self._error(ExtentMismatch(message, span))
        return array.view(kind.dtype.numpy) if array.dtype is not kind.dtype.numpy else array

    def _check_scalar(self, value: object, binding: Binding, dtype: DType) -> Number:
        try:
            return scalar_value(value, dtype, binding.name)
        except TesseraError as error:
            error.span = binding.span
            raise self._error(error) from None

    def _check_symbols(self, values: Sequence[object]) -> None:
        known: dict[str, tuple[int, int, int]] = {}
        for name, parameter, axis, scale in _places(self.artifact):
            extent = cast("AnyArray", values[parameter]).shape[axis] * scale
            if name not in known:
                known[name] = (extent, parameter, scale)
            elif known[name][0] != extent:
                self._disagree(name, known[name], (extent, parameter, scale))

    def _disagree(self, name: str, first: tuple[int, int, int], other: tuple[int, int, int]) -> NoReturn:
        bindings = self.artifact.bindings
        one, two = bindings[first[1]], bindings[other[1]]
        if max(first[2], other[2]) > 1 and max(first[0], other[0]) % max(first[2], other[2]):
            whole, part = (one, two) if other[2] > 1 else (two, one)
            extent, scale = (first[0], other[2]) if other[2] > 1 else (other[0], first[2])
            message = f"{name} = {extent} of {whole.name} does not divide by {scale}, as {part.name} needs"
            raise self._error(NotDivisible(message, part.span, notes=[Note(f"{name} is bound here", whole.span)]))
        message = f"{one.name} has {name} = {first[0]} but {two.name} has {name} = {other[0]}"
        notes = [Note(f"{name} is bound to {first[0]} here", one.span)]
        raise self._error(ExtentMismatch(message, two.span, "pass arrays whose shapes fit together", notes))

    def _check_overlap(self, values: Sequence[Any]) -> None:
        for written in self._written:
            for other in self._arrays:
                both = self._specs[other].mutable
                if other != written and _conflict(values[written], values[other], both_written=both):
                    one, two = self.artifact.bindings[written], self.artifact.bindings[other]
                    what = "are one memory and both written" if both else "overlap without being the same array"
                    message = f"{one.name} is written, and {one.name} and {two.name} {what}"
                    raise self._error(OverlappingArrays(message, one.span, f"pass a copy for {two.name}"))

    def _error(self, error: TesseraError) -> TesseraError:
        return error.with_source(self.artifact.source)


def scalar_value(value: object, dtype: DType, name: str) -> Number:
    """Return the number `value` holds as a Python number that `dtype` can hold, or raise ArgumentType, ScalarRange."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):  # pyright: ignore[reportUnknownMemberType]
        value = cast("object", value.item())  # pyright: ignore[reportUnknownMemberType]
    if dtype.kind == "bool":
        if not isinstance(value, bool):
            raise ArgumentType(f"{name} is a bool, got {_shown(value)}", hint="pass True or False")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = _number_like(value, dtype, name)
    if dtype.is_integer:
        return _integer(value, dtype, name)
    number = float(value)
    if abs(number) > _largest(dtype) and number not in (float("inf"), float("-inf")):
        raise ScalarRange(f"{name} = {value!r} is too large for {dtype}", hint=f"{dtype} reaches {_largest(dtype):.4g}")
    return number


def _number_like(value: object, dtype: DType, name: str) -> Number:
    """bfloat16 scalars and the like, which are no subclass of float; a bool is the number 0 or 1."""
    if isinstance(value, bool):
        return int(value)
    if hasattr(value, "__index__"):
        return int(cast("Any", value))
    if hasattr(value, "__float__") and not isinstance(value, str):
        return float(cast("Any", value))
    raise ArgumentType(f"{name} is a number ({dtype}), got {_shown(value)}")


def _integer(value: Number, dtype: DType, name: str) -> int:
    if isinstance(value, float):
        if value != int(value) if np.isfinite(value) else True:
            raise ScalarRange(f"{name} is {dtype}, got {value!r}", hint="pass a whole number, or declare a float")
        value = int(value)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value <= limits.max:
        raise ScalarRange(f"{name} = {value} does not fit {dtype}", hint=f"{dtype} holds {limits.min} to {limits.max}")
    return value


def _largest(dtype: DType) -> float:
    # Half a unit above the largest number still rounds to it.
    return {"f64": float(np.finfo(np.float64).max), "f32": 3.4028235677973366e38, "f16": 65519.99,
            "bf16": 3.3961775292304957e38}[dtype.name]  # fmt: skip


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {cast('AnyArray', value).shape}"
    return repr(value) if isinstance(value, bool | int | float | str) or value is None else f"a {type(value).__name__}"


def _bf16_bits(value: float) -> int:
    return int(np.array(value, bf16.numpy).view(np.uint16))


def _spec(binding: Binding, base: int, scalar: type | None) -> _Spec:
    kind = binding.type
    if isinstance(kind, Array):
        fixed = tuple((axis, extent) for axis, extent in enumerate(kind.shape) if isinstance(extent, int))
        return _Spec(True, kind.dtype.numpy, len(kind.shape), kind.contiguous, binding.mutable, fixed, object, 0, 0, base)
    dtype = kind.dtype
    usual = {"float": float, "bool": bool}.get(dtype.kind, int)
    low, high = _limits(dtype)
    return _Spec(False, dtype, 0, False, False, (), scalar or usual, low, high, base)


def _limits(dtype: DType) -> tuple[Number, Number]:
    if dtype.is_float:
        return float("-inf"), float("inf")  # too large ones fail when they are packed
    if dtype.kind == "bool":
        return False, True
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _size(binding: Binding) -> int:
    """Facts a parameter takes: a scalar one; an array its address, extents, and strides unless it is contiguous."""
    kind = binding.type
    return 1 + len(kind.shape) * (1 if kind.contiguous else 2) if isinstance(kind, Array) else 1


def _places(artifact: Artifact) -> list[tuple[str, int, int, int]]:
    """Every place that binds a symbol, as (name, parameter, axis, scale): those listed, then those in the types."""
    places = list(artifact.symbols)
    listed = {(parameter, axis) for _, parameter, axis, _ in places}
    names = {name for name, *_ in places}
    for parameter, binding in enumerate(artifact.bindings):
        if isinstance(binding.type, Array):
            for axis, extent in enumerate(binding.type.shape):
                if extent in names and (parameter, axis) not in listed:
                    places.append((str(extent), parameter, axis, 1))
    return places


def _element_strides(array: AnyArray) -> list[int]:
    size = array.itemsize
    return [stride // size for stride in array.strides]


def _bounds(array: AnyArray, start: Number, contiguous: bool) -> tuple[Number, Number]:
    """First byte and the one past the last that `array` may touch."""
    if contiguous:
        return start, start + array.nbytes
    return np.lib.array_utils.byte_bounds(array)


def _conflict(written: AnyArray, other: AnyArray, *, both_written: bool) -> bool:
    if not np.may_share_memory(written, other):
        return False
    same = written.shape == other.shape and written.strides == other.strides and address(written) == address(other)
    if same and not both_written:
        return False
    try:
        return np.shares_memory(written, other, max_work=10_000)
    except np.exceptions.TooHardError:  # an exact answer would take too long: the user knows best
        return False


def _count_message(artifact: Artifact, given: int) -> str:
    names = ", ".join(binding.name for binding in artifact.bindings)
    return f"{artifact.name} takes {len(artifact.bindings)} arguments ({names}), got {given}"


def pack_format(dtype: DType) -> str:
    """Return the `struct` format of a scalar slot."""
    return FORMATS[dtype.name]



