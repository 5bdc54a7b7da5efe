"""`Scaled`: an array as codes and scales, in the numerics of its type; made, read and multiplied in graphs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, fp8_e4m3, i32, i64, promote, u32
from tessera.core.base.plurals import counted
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.numerics import Numerics
from tessera.core.program.spec import IN_RANGE
from tessera.graphs.codes import byte_of, decoded, encoded, field_of, packed_word, scale_code, scale_value
from tessera.graphs.shapes import matmul_labels
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer, binary, contraction, reduce, unary

ROUNDING_STREAM: Final = 5
"""The stream of the bits that stochastic rounding draws, apart from those of random numbers."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """An array stored as codes: what `op.quantize` returns, and what operators on codes take.

    codes: of the format's dtype, [..., extent]; of packed formats bytes, `numerics.format.held(extent)` of them
    scales: one a block, f32 or the codes of e8m0 in u8, with as many axes as the array; None without a scale
    extents: of the array that it stands for
    source: while a graph is captured, the numbers that were quantised in it: derivatives go through there
    loose: then, too, the codes before they were packed: what uses them there need not unpack them
    """

    codes: Any  # an array of any library, or a tracer; so are the scales
    scales: Any
    numerics: Numerics
    extents: tuple[int, ...]
    source: Tracer | None = field(default=None, init=False)
    loose: Tracer | None = field(default=None, init=False)

    def made_of(self, source: Tracer | None, loose: Tracer | None) -> "Scaled":
        """Return this, and remember the numbers and the codes that it was made of."""
        made = replace(self)
        object.__setattr__(made, "source", source)  # frozen, and not for callers to give
        object.__setattr__(made, "loose", loose)
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the array that it stands for."""
        return self.extents

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.extents)

    @property
    def T(self) -> "Scaled":  # noqa: N802 - NumPy's name
        """The transpose of a matrix.  In a graph nothing is moved: products read its codes as they lie.

        Raises OperandMismatch for other ranks, and for codes that share bytes.
        """
        numerics = self.numerics
        if self.ndim != 2:
            raise OperandMismatch(f"{self.shape} is no matrix to transpose", hint="quantise the transposed array")
        if numerics.format.is_packed:
            raise OperandMismatch(
                f"{numerics.format} lies side by side in bytes along the last axis",
                hint="quantise the transposed array",
            )
        if numerics.scale is not None and numerics.scale.block:
            first, second = (1, *numerics.scale.block)[-2:]
            numerics = replace(numerics, scale=replace(numerics.scale, block=(second, first)))
        scales = None if self.scales is None else self.scales.T
        made = Scaled(self.codes.T, scales, numerics, self.extents[::-1])
        if self.source is None:
            return made
        return made.made_of(self.source.T, made.codes)

    @property
    def bytes(self) -> int:
        """The bytes of codes and scales."""
        target, scale = self.numerics.format, self.numerics.scale
        held = math.prod(self.extents[:-1]) * target.held(self.extents[-1]) if self.extents else 1
        counts = math.prod(count for count, _ in scale.blocks(self.extents)) if scale is not None else 0
        return held * target.dtype.bytes + counts * (f32.bytes if scale is not None and scale.dtype == "f32" else 1)

    def __repr__(self) -> str:
        return f"<{' x '.join(map(str, self.extents))} of {self.numerics}, {counted(self.bytes, 'byte')}>"


def quantize(x: Tracer, numerics: Numerics, key: Tracer | None = None) -> Scaled:
    """Return an array as codes and scales, by the greatest magnitude of each block.

    key: u32[2], for stochastic rounding.  Raises OperandMismatch for numbers that are no floats, a block that does not
    fit, an array without axes in a packed format, and a key that is missing or idle.
    """
    target, scale = numerics.format, numerics.scale
    if not x.dtype.is_float:
        raise OperandMismatch(f"{x.dtype} is not quantised", hint="convert with .astype('f32')")
    if target.is_packed and not x.ndim:
        raise OperandMismatch(f"one number does not fill a byte of {target}", hint="give an array with an axis")
    if (numerics.rounding == "stochastic") != (key is not None):
        raise OperandMismatch(
            f"{numerics.rounding} rounding takes {'a' if key is None else 'no'} key",
            hint="give key=op.key(seed) with @rounding('stochastic'), and only with that",
        )
    wide, scales = x.astype(f32), None
    if scale is not None:  # block by block until the codes are made, so that it can be one loop over blocks
        split, reduced = _split(scale.blocks(x.shape))
        wide = wide.reshape(*split)
        scales = _scales(wide, reduced, numerics)
        wide = wide / scale_numbers(scales) if key is not None else _quotients(wide, scale_numbers(scales))
        scales = scales.reshape(*(count for count, _ in scale.blocks(x.shape)))
    loose = _codes(wide, numerics, key)
    if scale is not None:
        loose = loose.reshape(*x.shape)
    codes = _stored(_packed(loose, numerics) if target.is_packed else loose, numerics)
    return Scaled(codes, scales, numerics, x.shape).made_of(x, loose if target.is_packed else codes)


def _quotients(x: Tracer, scales: Tracer) -> Tracer:
    """Return numbers over their scales, both by a power of two nearer to 1 first, for a division that is in range.

    Quotients have the same codes: what a power of two makes inexact is too small to be anything but 0.  An infinite
    scale, of a block with an infinity, gives 0 for what is finite and NaN for the infinity, as a division by it does.
    """
    s = Argument(0, f32)

    def where(predicate: str, limit: float, value: float, other: Expr) -> Expr:
        return apply("select", apply("cmp", s, Literal(limit, f32), predicate=predicate), Literal(value, f32), other)

    power = where("lt", 2.0**-60, 2.0**64, where("gt", 2.0**60, 2.0**-64, Literal(1.0, f32)))
    powers = apply_expr(where("eq", math.inf, 0.0, power), [scales])
    divisors = apply_expr(where("eq", math.inf, 1.0, apply("mul", s, Argument(1, f32))), [scales, powers])
    return apply_expr(apply("div", Argument(0, f32), Argument(1, f32), predicate=IN_RANGE), [x * powers, divisors])


def dequantize(x: Scaled) -> Tracer:
    """Return the numbers that codes and scales stand for, in f32."""
    wide, scale = code_numbers(x), x.numerics.scale
    if scale is None:
        return wide
    split, reduced = _split(scale.blocks(x.extents))
    scales = as_tracer(x.scales).reshape(*(1 if n in reduced else extent for n, extent in enumerate(split)))
    return (wide.reshape(*split) * scale_numbers(scales)).reshape(*x.extents)


def code_numbers(x: Scaled) -> Tracer:
    """Return the numbers of the codes, without scales, in f32."""
    target = x.numerics.format
    codes = as_tracer(x.codes) if x.loose is None else x.loose
    if x.loose is None and target.is_packed:
        codes = _unpacked(codes, x)
    return apply_expr(decoded(Argument(0, codes.dtype), target), [codes])


def scale_numbers(scales: Tracer) -> Tracer:
    """Return scales as f32: powers of two where they are codes of e8m0."""
    if scales.dtype == f32:
        return scales
    return apply_expr(scale_value(Argument(0, scales.dtype)), [scales])


def _split(blocks: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the extents of an array with axes cut into blocks, and which of the axes lie in blocks."""
    extents: list[int] = []
    inside: list[int] = []
    for count, length in blocks:
        if count != 1:
            extents.append(count)
        if count == 1 or length != 1:
            inside.append(len(extents))
            extents.append(length)
    return extents, inside


def _scales(x: Tracer, inside: Sequence[int], numerics: Numerics) -> Tracer:
    """Return the scales of an array that is cut into blocks, with extent 1 for the axes inside of them."""
    assert numerics.scale is not None
    largest = reduce("max", unary("abs", x), inside, keepdims=True) if inside else unary("abs", x)
    bounded = binary("max", largest, 0.0)  # the greatest of no numbers is -inf
    return apply_expr(scale_code(Argument(0, f32), numerics.format, numerics.scale.dtype), [bounded])


def spread(scales: Tracer, numerics: Numerics, shape: Sequence[int]) -> Tracer:
    """Return scales repeated over their blocks, as far as they do not broadcast by themselves."""
    assert numerics.scale is not None
    blocks = numerics.scale.blocks(tuple(shape))
    axes: list[Affine] = []
    extents: list[int] = []
    for axis, (count, length) in enumerate(blocks):
        extents.append(1 if count == 1 else count * length)
        axes.append(Affine(0, (Term(axis, 1, length),)) if count > 1 and length > 1 else Affine(0, (Term(axis),)))
    if tuple(extents) == scales.shape:
        return scales
    return scales.of(scales.trace.builder.view(scales.value, IndexMap(tuple(extents), tuple(axes))))


def _codes(quotient: Tracer, numerics: Numerics, key: Tracer | None) -> Tracer:
    operands, bits = [quotient], None
    if key is not None:
        operands.append(key.of(key.trace.builder.random(key.value, quotient.shape, ROUNDING_STREAM)))
        bits = Argument(1, u32)
    return apply_expr(encoded(Argument(0, f32), numerics.format, numerics.rounding, bits), operands)


def _stored(codes: Tracer, numerics: Numerics) -> Tracer:
    """Return codes as a value that says in its type what they are."""
    return codes.of(codes.trace.builder.stored(codes.value, numerics))


def _packed(codes: Tracer, numerics: Numerics) -> Tracer:
    """Return codes of u8 side by side in bytes."""
    target = numerics.format
    count, held = target.packing
    extent, ragged = target.held(codes.shape[-1]), codes.shape[-1] % count != 0
    parts = [_every(codes, extent, place, count, held, padded=ragged) for place in range(count)]
    word = packed_word([Argument(place, part.dtype) for place, part in enumerate(parts)], target.bits)
    if held == 1:
        return apply_expr(byte_of(word, Literal(0, i64)), parts)
    place = apply("mod", Argument(count, i64), Literal(held, i64))
    return apply_expr(byte_of(word, place), [*parts, _places(codes, extent)])


def _unpacked(codes: Tracer, x: Scaled) -> Tracer:
    """Return each code in a byte of its own."""
    target = x.numerics.format
    count, held = target.packing
    extent = x.extents[-1]
    parts = [_every(codes, extent, place, held, count) for place in range(held)]
    word = packed_word([Argument(place, part.dtype) for place, part in enumerate(parts)], 8)
    place: Expr = apply("and", Argument(held, i64), Literal(count - 1, i64))
    return apply_expr(field_of(word, place, target.bits), [*parts, _places(codes, extent)])


def _every(x: Tracer, extent: int, first: int, step: int, divisor: int, *, padded: bool = False) -> Tracer:
    """Return the elements `first + step * (n // divisor)` of the last axis, for each n below `extent`."""
    last = x.ndim - 1
    axes = [Affine(0, (Term(axis),)) for axis in range(last)]
    index_map = IndexMap((*x.shape[:-1], extent), (*axes, Affine(first, (Term(last, step, divisor),))), padded)
    return x.of(x.trace.builder.view(x.value, index_map))


def _places(x: Tracer, extent: int) -> Tracer:
    return x.of(x.trace.builder.iota(extent))


def multiply(
    a: Scaled | Tracer, b: Scaled | Tracer, *, tile_shape: tuple[int, ...] = (), exact: bool = False
) -> Tracer:
    """Return the matrix product of two arrays of which at least one is Scaled, as NumPy's `matmul`.

    Codes are multiplied, widened where the hardware has no product of them, and scales that are the same along the
    summed axis multiply the sums; others multiply the codes first.  The result has the dtype that sums have, or that
    of the operand that is no Scaled.  Raises OperandMismatch for shapes that do not fit.
    """
    product = matmul_labels(a.shape, b.shape)
    made_in = [each.numerics.accum for each in (a, b) if isinstance(each, Scaled)]
    accum = made_in[0] if len(set(made_in)) == 1 else promote(*made_in)
    plain = next((each.dtype for each in (a, b) if isinstance(each, Tracer)), None)
    if plain is not None and not plain.is_float:
        raise OperandMismatch(f"{plain} times codes", hint="convert with .astype('f32')")
    accum = f32 if plain is not None and accum == i32 else accum
    axes = (a.ndim - 1, max(b.ndim - 2, 0))
    alike = {each.numerics.format if isinstance(each, Scaled) else None for each in (a, b)}
    as_they_are = len(alike) == 1 and accum == f32 and all(each is not None and each.dtype.is_storage for each in alike)
    sides = [_factor(x, axis, accum, plain, as_they_are) for x, axis in zip((a, b), axes, strict=True)]
    factors = [each.reshape(*(each.shape[axis] for axis in kept))
               for (each, _), kept in zip(sides, product.kept, strict=True)]  # fmt: skip
    met = f64 if accum == f64 else promote(factors[0].dtype, factors[1].dtype)
    wide = f64 if met == f64 else i32 if met == i32 else f32
    total = contraction(factors[0].astype(met), factors[1].astype(met), product.labels, product.result,
                        tile_shape=tile_shape, exact=exact, dtype=wide)  # fmt: skip
    for place, (_, scales) in enumerate(sides):
        if scales is not None:
            total = total.astype(f64 if wide == f64 else f32) * _behind(scales, place, a.ndim, b.ndim)
    return total.astype(plain) if plain is not None else total


def _factor(
    x: Scaled | Tracer, summed: int, accum: DType, plain: DType | None, as_they_are: bool
) -> tuple[Tracer, Tracer | None]:
    """Return what is multiplied, and the scales that multiply the sums, if any.

    as_they_are: whether codes are factors of a product themselves: two floats of 8 bits of one format
    """
    if isinstance(x, Tracer):
        return x, None
    scale = x.numerics.scale
    along = 1 if scale is None else scale.blocks(x.extents)[summed][0]
    if along != 1:
        values = dequantize(x)
        short = scale is not None and scale.dtype == "e8m0" and x.numerics.format.bits <= fp8_e4m3.bits
        # A code times a power of two is a bf16; below 2^-126 it is rounded to one.
        return values.astype(bf16) if short and accum == f32 and plain in (None, bf16) else values, None
    scales = None if scale is None else spread(scale_numbers(as_tracer(x.scales)), x.numerics, x.extents)
    return as_tracer(x.codes) if as_they_are else _widened(x, accum, plain), scales


def _widened(x: Scaled, accum: DType, plain: DType | None) -> Tracer:
    """Return the codes' numbers in the shortest dtype that holds them all and that products are made of."""
    target = x.numerics.format
    if (target.dtype.is_float and target.bits > 8) or accum == f64:
        values = code_numbers(x) if target.is_packed else as_tracer(x.codes)
        return values.astype(f64) if accum == f64 else values
    if accum == i32:
        return code_numbers(x).astype(i32)
    return code_numbers(x).astype(plain if plain in (f16, bf16) else bf16)


def _behind(scales: Tracer, place: int, first: int, second: int) -> Tracer:
    """Return an operand's scales with the axes of the product: without the summed axis, and with the other's."""
    if place == 0:
        rest = scales[..., 0]
        return rest[..., None] if second > 1 else rest
    rest = scales[..., 0, :] if second > 1 else scales[..., 0]
    return rest[..., None, :] if first > 1 and second > 1 else rest
