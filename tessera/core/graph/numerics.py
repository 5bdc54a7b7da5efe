"""Numerics as types: how the numbers of an array are stored, scaled, rounded and summed.

    fp6 @ accum("f32") @ rounding("nearest") @ scale(block=(1, 32), dtype="e8m0")

A `Format` is a set of numbers with their codes.  Those that no machine addresses are packed: codes of 4 bits two a
byte, of 6 bits four in three bytes, the first code in the lowest bits.  Values of fp4 and fp6 are those of the OCP
Microscaling Formats Specification 1.0, which have neither infinities nor NaN.
"""

import builtins
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NoReturn, TypeAlias, cast

from tessera.core.base.dtypes import BY_NAME, DType, bf16, f16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i32, u8
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import OperandMismatch

ROUNDINGS: Final = ("nearest", "toward_zero", "stochastic")
"""To nearest, ties to even; the fraction is dropped; up with the probability of the fraction."""
SCALE_DTYPES: Final = ("f32", "e8m0")
"""Any number; a power of two in a byte, as its exponent + 127, with 255 for NaN."""
_PARTS: Final = re.compile(r"([\w]+)((?: @\w+\([^@]*\))*)")
_POLICY: Final = re.compile(r" @(\w+)\(([^@]*)\)")
_SCALE: Final = re.compile(r'block=\((\d*(?:, ?\d+)*),?\), dtype="(\w+)"')


@dataclass(frozen=True)
class Format:
    """The numbers that an element can be.

    bits: of a code; exponent, mantissa: fields of a float, (0, 0) for integers; largest: the greatest finite number
    bias: of the exponent; dtype: what one element, or a byte of several codes, is held in
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    bias: int
    largest: float
    dtype: DType

    @property
    def is_integer(self) -> bool:
        """True for i8 and i4."""
        return not self.exponent

    @property
    def is_packed(self) -> bool:
        """True where a byte holds parts of several codes."""
        return self.bits not in (8, 16, 32, 64)

    @property
    def packing(self) -> tuple[int, int]:
        """How many codes are how many bytes: (2, 1) for 4 bits, (4, 3) for 6."""
        if not self.is_packed:
            return (1, self.bits // 8)
        return (2, 1) if 8 % self.bits == 0 else (4, 3)

    @cached_property
    def binades(self) -> tuple[int, ...]:
        """The exponents of the distance between neighbours, from the least: one a binade, subnormals with the first."""
        if self.is_integer:
            return (0,)
        least = 1 - self.bias - self.mantissa
        bound, found = 2.0 ** (2 - self.bias), [least]
        while bound <= self.largest:
            found.append(found[-1] + 1)
            bound *= 2
        return tuple(found)

    def held(self, extent: int) -> int:
        """Return how many elements of `dtype` hold `extent` codes; the codes left in the last ones are 0."""
        codes, count = self.packing
        return -(-extent // codes) * count if self.is_packed else extent

    def __repr__(self) -> str:
        return self.name


def _float(dtype: DType, exponent: int, mantissa: int, largest: float) -> Format:
    return Format(dtype.name, dtype.bits, exponent, mantissa, 2 ** (exponent - 1) - 1, largest, dtype)


fp6_e3m2: Final = Format("fp6_e3m2", 6, 3, 2, 3, 28.0, u8)
fp6_e2m3: Final = Format("fp6_e2m3", 6, 2, 3, 1, 7.5, u8)
fp4_e2m1: Final = Format("fp4_e2m1", 4, 2, 1, 1, 6.0, u8)
i4: Final = Format("i4", 4, 0, 0, 0, 7.0, u8)
_BYTES: Final = (
    _float(fp8_e4m3, 4, 3, 448.0),
    _float(fp8_e5m2, 5, 2, 57344.0),
    Format("i8", 8, 0, 0, 0, 127.0, i8),
    _float(f16, 5, 10, 65504.0),
    _float(bf16, 8, 7, 2.0**127 * (2 - 2.0**-7)),
    _float(f32, 8, 23, 2.0**127 * (2 - 2.0**-23)),
)
FORMATS: Final = {each.name: each for each in (fp6_e3m2, fp6_e2m3, fp4_e2m1, i4, *_BYTES)}
fp6: Final = fp6_e3m2
fp4: Final = fp4_e2m1
ALIASES: Final = {"fp6": fp6, "fp4": fp4, "int4": i4}


def format_of(given: object) -> Format:
    """Return the format that is meant: a Format, a dtype, or the name of one.  Raises OperandMismatch."""
    name = given.name if isinstance(given, DType | Format) else given
    if isinstance(name, str):
        name = BY_NAME[name].name if name in BY_NAME else name
        found = FORMATS.get(name) or ALIASES.get(name)
        if found is not None:
            return found
    return _refuse(f"no array is stored in {given!r}", f"choose from {', '.join((*FORMATS, *ALIASES))}")


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers that codes are multiplied with, one for each block of elements.

    block: extents along the last axes, axes in front have 1 and 0 stands for all of an axis; () is one block of all
    dtype: of the scales, one of SCALE_DTYPES
    """

    block: tuple[int, ...] = ()
    dtype: str = "f32"

    def blocks(self, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return along each axis of an array how many blocks there are, and how long each is.

        Raises OperandMismatch for a block that does not fit.
        """
        if not self.block:
            return tuple((1, extent) for extent in shape)
        if len(self.block) > len(shape):
            _refuse(f"blocks of {self.block} need {len(self.block)} axes, and {shape} has {len(shape)}",
                    "give one extent for each of the last axes")  # fmt: skip
        sizes = (*(1,) * (len(shape) - len(self.block)), *self.block)
        for size, extent in zip(sizes, shape, strict=True):
            if size and extent % size:
                _refuse(f"blocks of {size} elements do not divide an axis of {extent}",
                        f"pad the axis to {-(-extent // size) * size}, or choose a block that divides it")  # fmt: skip
        return tuple((extent // size, size) if size else (1, extent) for size, extent in zip(sizes, shape, strict=True))

    def __rmatmul__(self, left: object) -> "Numerics":
        return replace(numerics_of(left), scale=self)

    def __str__(self) -> str:
        return f'@scale(block={self.block}, dtype="{self.dtype}")'


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`@accum(fp32)`: what products are summed in."""

    dtype: DType

    def __rmatmul__(self, left: object) -> "Numerics":
        given = numerics_of(left)
        allowed = (i32,) if given.format.is_integer else (f32, f64)
        if self.dtype not in (*allowed, f32):
            names = " or ".join(dict.fromkeys(each.name for each in (*allowed, f32)))
            _refuse(f"products of {given.format} are not summed in {self.dtype}", f"sum in {names}")
        return replace(given, accum=self.dtype)


@dataclass(frozen=True, slots=True)
class Rounding:
    """`@round("nearest")`: how numbers become codes."""

    mode: str

    def __rmatmul__(self, left: object) -> "Numerics":
        given = numerics_of(left)
        if self.mode != "nearest" and given.format.bits > u8.bits:
            _refuse(f"{given.format} is rounded to nearest, not {self.mode}", "choose a format of at most 8 bits")
        return replace(given, rounding=self.mode)


@dataclass(frozen=True, slots=True)
class Numerics:
    """How an array's numbers are stored, and what is computed with them.

    accum: the dtype that products are summed in; rounding: one of ROUNDINGS; scale: None where codes are the numbers
    """

    format: Format
    accum: DType = f32
    rounding: str = "nearest"
    scale: Scale | None = None

    def __str__(self) -> str:
        parts = [self.format.name, f"@accum({self.accum})"]
        parts += [f'@round("{self.rounding}")'] if self.rounding != "nearest" else []
        parts += [str(self.scale)] if self.scale is not None else []
        return " ".join(parts)

    @staticmethod
    def parse(text: str) -> "Numerics":
        """Return the numerics that `str` wrote.  Raises ValueError for another text."""
        found = _PARTS.fullmatch(text)
        if found is None or found[1] not in FORMATS:
            raise ValueError(f"{text!r} are no numerics")
        made = Numerics(FORMATS[found[1]])
        for name, argument in _POLICY.findall(found[2]):
            match name, _SCALE.fullmatch(argument):
                case "accum", None if argument in BY_NAME:
                    made = replace(made, accum=BY_NAME[argument])
                case "round", None if argument.strip('"') in ROUNDINGS:
                    made = replace(made, rounding=argument.strip('"'))
                case "scale", re.Match() as scaled:
                    block = tuple(int(each) for each in scaled[1].split(",") if each)
                    made = replace(made, scale=Scale(block, scaled[2]))
                case _:
                    raise ValueError(f"{text!r}: there is no @{name}({argument})")
        return made


NumericsLike: TypeAlias = Numerics | Format | DType | str


def numerics_of(given: object) -> Numerics:
    """Return numerics as they are, a format or dtype with nothing said about it otherwise.  Raises OperandMismatch."""
    if isinstance(given, Numerics):
        return given
    found = format_of(given)
    return Numerics(found, i32 if found.is_integer else f32)


def accum(dtype: object) -> Accumulation:
    """Say what products are summed in: `fp6 @accum(fp32)`; f32 or f64, i32 for integers.  Raises OperandMismatch."""
    found = BY_NAME.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(found, DType) or found not in (f32, f64, i32):
        _refuse(f"products are not summed in {dtype!r}", "sum in f32 or f64, or integers in i32")
    return Accumulation(found)


def rounding(mode: object) -> Rounding:
    """Say how numbers become codes: `fp8_e4m3 @rounding("stochastic")`, in a cell `@round`.  Raises OperandMismatch."""
    found = {"even": "nearest", "zero": "toward_zero"}.get(str(mode), mode)
    if not isinstance(found, str) or found not in ROUNDINGS:
        _refuse(f"there is no rounding {mode!r}", f"choose from {', '.join(ROUNDINGS)}")
    return Rounding(found)


def round_(number: object, *digits: object) -> object:
    """Stand for both meanings of `round` in a cell: `@round("nearest")` of numerics, and Python's own of numbers."""
    if isinstance(number, str):
        return rounding(number)
    return builtins.round(number, *digits)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportUnknownVariableType, reportArgumentType]


def scale(*, block: object = (), dtype: str = "f32") -> Scale:
    """Say what codes are multiplied with: `fp8_e4m3 @scale(block=(1, 32), dtype="e8m0")`; see `Scale`.

    block: () for one scale in all, (1, 0) for one a row, (1, 32) for one every 32 elements of a row;
      a number is one of the last axis
    dtype: "f32", or "e8m0" for powers of two, as in the MX formats.  Raises OperandMismatch.
    """
    found = cast("tuple[object, ...]", tuple(block)) if isinstance(block, tuple | list) else (block,)  # pyright: ignore[reportUnknownArgumentType]
    extents = tuple(each for each in found if type(each) is int and each >= 0)
    if extents != found:
        _refuse(f"{block!r} is no block", "give extents along the last axes, e.g. (1, 32); 0 is a whole axis")
    if dtype not in SCALE_DTYPES:
        _refuse(f"there are no scales of {dtype!r}", f"choose from {', '.join(SCALE_DTYPES)}")
    return Scale(extents, dtype)


@dataclass(frozen=True, slots=True)
class TensorOf:
    """`Tensor["B", "D", fp6 @accum(fp32)]`: an annotation with the names of axes, and numerics where it has some."""

    axes: tuple[object, ...]
    numerics: Numerics | None


def declared_numerics(annotation: object) -> Numerics | None:
    """Return the numerics that an annotation declares, if any."""
    if isinstance(annotation, TensorOf):
        return annotation.numerics
    if isinstance(annotation, Format):
        return Numerics(annotation)
    return annotation if isinstance(annotation, Numerics) else None


def _refuse(message: str, hint: str) -> NoReturn:
    raise at_call(OperandMismatch(message, hint=hint))
