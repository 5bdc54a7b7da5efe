"""Check a launch's arguments against an artifact and turn them into facts: addresses, extents, strides, numbers.

`Binder.facts` is the fast path: it answers None for anything unusual and never explains.  `Binder.check` is the slow
one: it converts what can be converted and raises the mistake, with the parameter's place, for what cannot.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, SupportsFloat, SupportsIndex, TypeAlias, cast

import numpy as np

from tessera.core.artifact import Artifact, Binding
from tessera.core.base.dtypes import DType, bf16
from tessera.core.base.source import Note
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    ArgumentCount,
    ArgumentType,
    ExtentMismatch,
    NotDivisible,
    OverlappingArrays,
    ScalarRange,
    WrongDevice,
)
from tessera.core.program.types import Array, Scalar
from tessera.runtime.arrays.host import AnyArray, DeviceView, as_array, overlaps_itself, rows_aligned
from tessera.runtime.arrays.pointers import address

Number = int | float | bool
Facts = list[Number]
Arguments: TypeAlias = Sequence[Any]  # arrays and numbers in the parameters' order: a check would cost every launch

_F32: Final = struct.Struct("<f")
_U32: Final = struct.Struct("<I")
_MOST_WORK: Final = cast("Literal[0]", 10_000)  # any integer, though NumPy's stubs name two alone


@dataclass(frozen=True, slots=True)
class _Spec:
    """One parameter as the fast path needs it; `base` is where its facts begin."""

    is_array: bool
    dtype: "np.dtype[np.generic] | DType"  # of an array, of a scalar
    rank: int
    contiguous: bool
    layout: bool | None  # whether an array must be contiguous (True), must not (False), or may be either
    aligned: bool  # see `tessera.core.program.types.Array`
    mutable: bool
    fixed: tuple[tuple[int, int], ...]  # (axis, extent)
    scalar: type[Number]  # of a scalar's argument
    limits: tuple[int, int] | None  # of integers
    as_bits: bool  # bf16, which `struct` cannot write
    base: int


_SPREAD: Final = "of which trips of a loop that run side by side read what other ones write"


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two arrays of which at least the first is written; their addresses are facts `base` and `other_base`."""

    written: int
    other: int
    base: int
    other_base: int
    strided: bool
    distinct: bool

    def meets(self, arguments: Arguments, facts: Facts) -> bool:
        """Return whether they share bytes, other than by being the very same array, read and written in place."""
        mine, theirs = arguments[self.written], arguments[self.other]
        if not self.strided:
            start, other_start = facts[self.base], facts[self.other_base]
            if other_start >= start + mine.nbytes or start >= other_start + theirs.nbytes:
                return False
        return _conflict(mine, theirs, distinct=self.distinct)


class Binder:
    """Binds the arguments of one artifact.

    `scalars` holds the Python type that each parameter's argument must have, where it is a scalar: the artifact may
    have been specialised on it (an unannotated parameter given an int is an i64), as it may on gaps in an array: then
    `facts` declines arrays without gaps, for which there is faster code.  None: what the dtype suggests, any array.
    `view` is the class of the arrays: NumPy's own for memory of the host, `DeviceView` for that of a GPU.  Every launch
    gets its addresses here, so none runs on memory that it cannot reach.
    """

    def __init__(
        self, artifact: Artifact, scalars: Sequence[type] | None = None, view: type[AnyArray] = np.ndarray
    ) -> None:
        self.artifact = artifact
        self._view = view
        self._specs: list[_Spec] = []
        base = 0
        for index, binding in enumerate(artifact.bindings):
            spec = _spec(binding, base, scalars[index] if scalars is not None else None)
            self._specs.append(spec)
            base += _size(binding)
        self.size = base
        self._symbols: dict[str, tuple[int, int]] = {}
        self._agreements = self._find_agreements()
        self._pairs = tuple(self._find_pairs())

    def facts(self, arguments: Sequence[object]) -> Facts | None:
        """Return the facts of `arguments` (as many as there are parameters), or None when anything is unusual."""
        found: Facts = []
        view = self._view
        # The caller has counted the arguments; `strict` alone would take as long as a whole array.
        for value, spec in zip(arguments, self._specs):  # noqa: B905
            if spec.is_array:
                if type(value) is not view or not _array_facts(value, spec, found):
                    return None
            elif type(value) is not spec.scalar or not (
                spec.limits is None or spec.limits[0] <= value <= spec.limits[1]
            ):
                return None
            else:
                fact = _bf16_bits(value) if spec.as_bits else value
                if fact is None:
                    return None
                found.append(fact)
        for first, first_scale, other, other_scale in self._agreements:
            if found[first] * first_scale != found[other] * other_scale:
                return None
        for pair in self._pairs:
            if pair.meets(arguments, found):
                return None
        return found

    def check(self, arguments: Sequence[object]) -> tuple[AnyArray | Number, ...]:
        """Return `arguments` as NumPy views and Python numbers that `facts` accepts; raise the mistake they make."""
        bindings = self.artifact.bindings
        if len(arguments) != len(bindings):
            raise self._error(ArgumentCount(_count_message(self.artifact, len(arguments)), self.artifact.span))
        converted = [self._convert(value, b, s) for value, b, s in zip(arguments, bindings, self._specs, strict=True)]
        self._check_symbols(converted)
        self.check_overlap(converted)
        return tuple(converted)

    def address_of(self, memory: AnyArray | None) -> int:
        """Return the address of memory that a launch takes besides its arguments, 0 for None.  Raises WrongDevice."""
        if memory is None:
            return 0
        if type(memory) is not self._view:
            message = f"kernel {self.artifact.name} was given memory that it cannot reach"
            raise self._error(WrongDevice(message, self.artifact.span))
        return address(memory)

    def symbol(self, name: str) -> tuple[int, int]:
        """Return the index among the facts of the extent that binds `name`, and its scale.  Raises KeyError."""
        return self._symbols[name]

    def index_of_address(self, parameter: int) -> int:
        """Return the index of a parameter's address (or value) among the facts."""
        return self._specs[parameter].base

    def index_of_extent(self, parameter: int, axis: int) -> int:
        """Return the index of an extent among the facts."""
        return self._specs[parameter].base + 1 + axis

    def index_of_stride(self, parameter: int, axis: int) -> int:
        """Return the index of a stride (in elements) among the facts; only of arrays that need not be contiguous."""
        spec = self._specs[parameter]
        return spec.base + 1 + spec.rank + axis

    def _find_agreements(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return the pairs of extents that must be equal: every place of a symbol but its first."""
        pairs: list[tuple[int, int, int, int]] = []
        for name, parameter, axis, scale in _places(self.artifact):
            place = (self.index_of_extent(parameter, axis), scale)
            first = self._symbols.setdefault(name, place)
            if first != place:
                pairs.append((*first, *place))
        return tuple(pairs)

    def _find_pairs(self) -> Iterator["_Pair"]:
        """Yield each written array with each other one; two written ones meet once."""
        for written, mine in enumerate(self._specs):
            if not mine.mutable:
                continue
            for other, theirs in enumerate(self._specs):
                if theirs.is_array and (not theirs.mutable or written < other):
                    strided = not (mine.contiguous and theirs.contiguous)
                    distinct = theirs.mutable or (written, other) in self.artifact.no_alias
                    yield _Pair(written, other, mine.base, theirs.base, strided, distinct)

    def _convert(self, value: object, binding: Binding, spec: _Spec) -> AnyArray | Number:
        kind = binding.type
        if isinstance(kind, Array):
            try:
                array = self._own(value, binding)
            except TesseraError as error:
                raise self._error(error) from None
            return self._check_array(array, binding, kind)
        if isinstance(kind, Scalar):
            number = self._check_scalar(value, binding, kind.dtype)
            return value if type(value) is spec.scalar else number
        raise TypeError(f"parameter {binding.name!r} has type {kind}")

    def _own(self, value: object, binding: Binding) -> AnyArray:
        """View `value` as an array in the memory of the launch.  Raises WrongDevice for any other, NotAnArray."""
        if self._view is np.ndarray:
            return as_array(value, binding.name, mutable=binding.mutable, span=binding.span)
        if isinstance(value, DeviceView):
            return value
        message = f"{binding.name} lies in the memory of the CPU, and this launch runs on a GPU"
        raise WrongDevice(message, binding.span, hint="copy it to the GPU first")

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
        if kind.aligned and not rows_aligned(array):
            raise self._error(ArgumentType(f"{name} must have rows that begin and end at multiples of 16 bytes", span))
        if binding.mutable and overlaps_itself(array.shape, array.strides, array.itemsize):
            message = f"{name} is written, and several of its elements lie in one place (strides {array.strides})"
            hint = f"pass a copy with a place for each: {name}.copy(), or {name}.contiguous() of PyTorch"
            raise self._error(OverlappingArrays(message, span, hint))
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
        if min(first[2], other[2]) == 1 < max(first[2], other[2]):
            extent, whole, scale, part = (
                (first[0], one, other[2], two) if first[2] == 1 else (other[0], two, first[2], one)
            )
        else:
            extent, whole, scale, part = 0, one, 1, two
        if extent % scale:
            message = f"{name} = {extent} of {whole.name} does not divide by {scale}, as {part.name} needs"
            raise self._error(NotDivisible(message, part.span, notes=[Note(f"{name} is bound here", whole.span)]))
        message = f"{one.name} has {name} = {first[0]} but {two.name} has {name} = {other[0]}"
        notes = [Note(f"{name} is bound to {first[0]} here", one.span)]
        raise self._error(ExtentMismatch(message, two.span, "pass arrays whose shapes fit together", notes))

    def check_overlap(self, values: Arguments) -> None:
        """Raise OverlappingArrays where an array that is written shares bytes with another, other than as one array."""
        for pair in self._pairs:
            if _conflict(values[pair.written], values[pair.other], distinct=pair.distinct):
                one, two = self.artifact.bindings[pair.written], self.artifact.bindings[pair.other]
                what = "overlap without being the same array"
                if pair.distinct:
                    both = two.mutable
                    what = "are one memory and both written" if both else f"are one memory, {_SPREAD}"
                message = f"{one.name} is written, and {one.name} and {two.name} {what}"
                raise self._error(OverlappingArrays(message, one.span, f"pass a copy for {two.name}"))

    def _error(self, error: TesseraError) -> TesseraError:
        return error.with_source(self.artifact.source)


def scalar_value(value: object, dtype: DType, name: str) -> Number:
    """Return the number `value` holds as a Python number that `dtype` can hold, or raise ArgumentType, ScalarRange."""
    if isinstance(value, np.generic):
        value = cast("object", value.item())
    if dtype.kind == "bool":
        if not isinstance(value, bool):
            raise ArgumentType(f"{name} is a bool, got {_shown(value)}", hint="pass True or False")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = _number_like(value, dtype, name)
    if dtype.is_integer:
        return _integer(value, dtype, name)
    try:
        number = float(value)
    except OverflowError:  # an integer past the largest f64
        raise ScalarRange(f"{name} is too large for {dtype}", hint=f"{dtype} reaches {_largest(dtype):.4g}") from None
    if _too_large(number, dtype):
        raise ScalarRange(f"{name} = {value!r} is too large for {dtype}", hint=f"{dtype} reaches {_largest(dtype):.4g}")
    return number


def _number_like(value: object, dtype: DType, name: str) -> Number:
    """Convert bfloat16 scalars and the like, which are no subclass of float; a bool is the number 0 or 1."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str | np.ndarray):
        if hasattr(value, "__index__"):
            return int(cast("SupportsIndex", value))
        if hasattr(value, "__float__"):
            return float(cast("SupportsFloat", value))
    raise ArgumentType(f"{name} is a number ({dtype}), got {_shown(cast('object', value))}")


def _integer(value: Number, dtype: DType, name: str) -> int:
    if isinstance(value, float):
        hint = "pass an int, or declare the parameter as a float"
        raise ScalarRange(f"{name} is {dtype}, got the float {value!r}", hint=hint)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value <= limits.max:
        raise ScalarRange(f"{name} = {value} does not fit {dtype}", hint=f"{dtype} holds {limits.min} to {limits.max}")
    return value


def _too_large(number: float, dtype: DType) -> bool:
    """Return whether a finite number would become infinite."""
    if dtype == bf16:
        return _bf16_bits(number) is None
    with np.errstate(all="ignore"):
        return bool(np.isfinite(number) and np.isinf(np.array(number).astype(dtype.numpy)))


def _largest(dtype: DType) -> float:
    return {"f64": 1.797693e308, "f32": 3.402823e38, "f16": 65504.0, "bf16": 3.389531e38}[dtype.name]


def _shown(value: object) -> str:
    kind = type(value).__name__
    return repr(value) if isinstance(value, bool | int | float | str) or value is None else f"a value of type {kind}"


def _bf16_bits(value: float) -> int | None:
    """Return the bits of `value` rounded once to bf16, to nearest even; None for a finite number that is too large."""
    try:
        number = float(value)
        packed = _F32.pack(number)
    except OverflowError:
        return None
    (nearest,), (bits,) = _F32.unpack(packed), _U32.unpack(packed)
    if math.isnan(number):
        return bits >> 16 | 0x40
    if nearest != number:  # rounded to odd: bf16's half must not be reached by a first rounding
        bits = bits - (abs(nearest) > abs(number)) | 1
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return None if rounded & 0x7FFF == 0x7F80 and not math.isinf(number) else rounded


def _spec(binding: Binding, base: int, scalar: type | None) -> _Spec:
    kind = binding.type
    if isinstance(kind, Array):
        fixed = tuple((axis, extent) for axis, extent in enumerate(kind.shape) if isinstance(extent, int))
        rank = len(kind.shape)
        layout = True if kind.contiguous else None if scalar is None else False
        mutable = binding.mutable
        return _Spec(
            True, kind.dtype.numpy, rank, kind.contiguous, layout, kind.aligned, mutable, fixed, int, None, False,
            base,
        )  # fmt: skip
    dtype = kind.dtype
    usual = {"float": float, "bool": bool}.get(dtype.kind, int)
    # Floats have no limits here: one that is too large fails when it is packed.
    info = np.iinfo(dtype.numpy) if dtype.is_integer else None
    limits = (int(info.min), int(info.max)) if info is not None else None
    known = cast("type[Number] | None", scalar)
    return _Spec(False, dtype, 0, False, None, False, False, (), known or usual, limits, dtype == bf16, base)


def _size(binding: Binding) -> int:
    """Count a parameter's facts: one of a scalar; of an array its address, extents, and strides unless contiguous."""
    kind = binding.type
    return 1 + len(kind.shape) * (1 if kind.contiguous else 2) if isinstance(kind, Array) else 1


def _places(artifact: Artifact) -> list[tuple[str, int, int, int]]:
    """Return the places that bind symbols, as (name, parameter, axis, scale): those listed, then those in the types."""
    places = list(artifact.symbols)
    listed = {(parameter, axis) for _, parameter, axis, _ in places}
    names = {name for name, *_ in places}
    for parameter, binding in enumerate(artifact.bindings):
        if isinstance(binding.type, Array):
            for axis, extent in enumerate(binding.type.shape):
                if extent in names and (parameter, axis) not in listed:
                    places.append((str(extent), parameter, axis, 1))
    return places


def _array_facts(value: AnyArray, spec: _Spec, found: Facts) -> bool:
    """Append address, extents and strides of `value`; False when it is not exactly what the parameter takes."""
    if value.dtype is not spec.dtype:
        return False
    shape, flags = value.shape, value.flags
    if (
        len(shape) != spec.rank
        or (spec.layout is not None and flags.c_contiguous is not spec.layout)
        or (spec.mutable and not (flags.writeable and _is_injective(value)))
        or not flags.aligned
        or (spec.aligned and not rows_aligned(value))
    ):
        return False
    for axis, extent in spec.fixed:
        if shape[axis] != extent:
            return False
    found.append(address(value))
    found += shape
    if not spec.contiguous:
        found += _element_strides(value)
    return True


def _is_injective(value: AnyArray) -> bool:
    """Return whether each element of an array has a place of its own."""
    return value.flags.c_contiguous or not overlaps_itself(value.shape, value.strides, value.itemsize)


def _element_strides(array: AnyArray) -> list[int]:
    size = array.itemsize
    return [stride // size for stride in array.strides]


def _conflict(written: AnyArray, other: AnyArray, *, distinct: bool) -> bool:
    if not np.may_share_memory(written, other):
        return False
    same = written.shape == other.shape and written.strides == other.strides and address(written) == address(other)
    if same and not distinct:
        return False
    try:
        return np.shares_memory(written, other, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:  # an exact answer would take too long: the user knows best
        return False


def _count_message(artifact: Artifact, given: int) -> str:
    names = ", ".join(binding.name for binding in artifact.bindings)
    return f"{artifact.name} takes {len(artifact.bindings)} arguments ({names}), got {given}"
