"""Floats of 8 bits as bytes: no processor's code generator knows them, so conversions are spelled out here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import ml_dtypes
import numpy as np

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.base.attributes import integer, text
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.passes import Pass

OPERAND_FORMAT: Final = "factors"
"""Attribute of a `tessera.dot` on bytes: the format that both factors have, as `FORMATS` names it."""
_CONVERSIONS: Final = ("arith.extf", "arith.truncf")
_LESS, _EQUAL, _AT_LEAST, _GREATER = 6, 0, 9, 8  # of unsigned integers, as `arith.cmpi` numbers its predicates
_FARTHER, _DIFFERENT = 2, 13  # comparisons of floats, as `arith.cmpf` numbers them; NaN is different
_SIGN: Final = 0x80
_MAGNITUDE: Final = 0x7F
_F32_BIAS: Final = 127
_F32_MANTISSA: Final = 23
_F32_MAGNITUDE: Final = 0x7FFFFFFF
_F32_INFINITY: Final = 0x7F800000
_F32_NAN: Final = 0x7FC00000
_MOST_NEGATIVE: Final = -(1 << 31)


@dataclass(frozen=True, slots=True)
class Format:
    """A float of 8 bits (P. Micikevicius et al., "FP8 Formats for Deep Learning", 2022), as ml_dtypes rounds to it.

    mantissa: bits; bias: of the exponent; numpy: the type of the same name there
    infinity: its code, None where there is none; nan: the code that NaN becomes; nans: the smallest code of a NaN
    overflow: the largest f32 that still rounds to a number, as bits
    """

    mantissa: int
    bias: int
    numpy: type[np.generic]
    infinity: int | None
    nan: int
    nans: int
    overflow: int

    @property
    def shift(self) -> int:
        """Return how many bits f32's mantissa has beyond those here."""
        return _F32_MANTISSA - self.mantissa

    @property
    def rebias(self) -> int:
        """Return by how much f32's exponents are larger."""
        return _F32_BIAS - self.bias

    @property
    def step(self) -> float:
        """Return the distance of denormal numbers."""
        return 2.0 ** (1 - self.bias - self.mantissa)


# 464 lies between 448, the largest e4m3, and what would be 480, and rounds to even; the f32 below 61440, which lies
# between 57344, the largest e5m2, and 65536.
FORMATS: Final = {
    "e4m3": Format(3, 7, ml_dtypes.float8_e4m3fn, None, 0x7F, 0x7F, 0x43E80000),
    "e5m2": Format(2, 15, ml_dtypes.float8_e5m2, 0x7C, 0x7E, 0x7D, 0x476FFFFF),
}
_TYPES: Final = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


@dataclass(frozen=True, slots=True)
class PackFloats(Pass):
    """Give values and memory of floats of 8 bits bytes instead, and spell out conversions with integers.

    before: `%h = arith.truncf %x : tile<128xf8E4M3FN>`
    after:  some 15 operations on integers of 32 bits, the last one `arith.trunci : tile<128xi8>`

    products: keep the factors of a product as bytes, its attribute `factors` tells the format; else they are widened
              to f16, which holds them exactly
    """

    name: ClassVar[str] = "tile-pack-floats"
    products: bool = False

    def run(self, module: ir.Module) -> None:
        """Rewrite `module`; one without such floats stays as it is."""
        every = operations(module)
        if not any(_has_format(op) for op in every):
            return
        found = [op for op in every if op.name in _CONVERSIONS]
        conversions = [(op, _format_of(op.operands[0]), _format_of(op.results[0])) for op in found]
        dots = [(op, _format_of(op.operands[0])) for op in every if op.name == "tessera.dot"]
        for op in every:
            _retype(op)
        for op, source, target in conversions:
            if source or target:
                _convert(op, source, target)
        for op, source in dots:
            if source:
                op.attributes[OPERAND_FORMAT] = text(source)
                if not self.products:
                    widen_operands(op)


def widen_operands(dot: AnyOp) -> None:
    """Give a product on bytes factors of f16, and the bytes' format no more."""
    emit = Emitter.before(dot)
    source = FORMATS[str(ir.StringAttr(dot.attributes[OPERAND_FORMAT]).value)]
    for number in (0, 1):
        wide = _widen(emit, dot.operands[number], source)
        dot.operands[number] = emit.value("arith.truncf", [wide], _like(wide.type, ir.F16Type.get()))
    del dot.attributes[OPERAND_FORMAT]


# -- types ---------------------------------------------------------------------------------------------------------


def _element(kind: ir.Type) -> ir.Type:
    return ir.ShapedType(kind).element_type if isinstance(kind, ir.ShapedType) else kind


def _format_of(value: ir.Value) -> str | None:
    return _TYPES.get(str(_element(value.type)))


def _blocks(op: AnyOp) -> list[ir.Block]:
    return [block for region in op.regions for block in region.blocks]


def _has_format(op: AnyOp) -> bool:
    values = [*op.results, *(argument for block in _blocks(op) for argument in block.arguments)]
    return any(_format_of(value) for value in values)


def _retype(op: AnyOp) -> None:
    """Retype what `op` defines: bytes instead of floats of 8 bits."""
    for value in (*op.results, *(argument for block in _blocks(op) for argument in block.arguments)):
        found = _format_of(value)
        if found is None:
            continue
        if op.name == "arith.constant":
            op.attributes["value"] = _constant(op.attributes["value"], found, _bytes(value.type))
        value.set_type(_bytes(value.type))
    if op.name == "func.func":
        kinds = [argument.type for argument in op.regions[0].blocks[0].arguments]
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))


def _bytes(kind: ir.Type) -> ir.Type:
    byte = ir.IntegerType.get_signless(8)
    if isinstance(kind, ir.MemRefType):
        return ir.MemRefType.get(list(kind.shape), byte, kind.layout, kind.memory_space)
    return _like(kind, byte)


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get(list(kind.shape), element) if isinstance(kind, ir.RankedTensorType) else element


def _constant(attribute: ir.Attribute, name: str, kind: ir.Type) -> ir.Attribute:
    shaped = isinstance(attribute, ir.DenseElementsAttr)
    number = ir.FloatAttr(attribute.get_splat_value() if shaped else attribute).value
    code = int(np.asarray(number, FORMATS[name].numpy).view(np.int8))
    scalar = ir.IntegerAttr.get(ir.IntegerType.get_signless(8), code)
    return ir.DenseElementsAttr.get_splat(kind, scalar) if shaped else scalar


# -- conversions ---------------------------------------------------------------------------------------------------


def _convert(op: AnyOp, source: str | None, target: str | None) -> None:
    emit, value, result = Emitter.before(op), op.operands[0], op.results[0].type
    if source is not None:
        value = _widen(emit, value, FORMATS[source])
    if target is not None:
        value = _narrow(emit, _as_f32(emit, value), FORMATS[target])
    elif str(_element(result)) != "f32":
        value = emit.value("arith.extf" if str(_element(result)) == "f64" else "arith.truncf", [value], result)
    op.results[0].replace_all_uses_with(value)
    op.erase()


class _Words:
    """Integers of 32 bits, scalars or tiles, in the shape of `model`."""

    def __init__(self, emit: Emitter, model: ir.Type) -> None:
        self.emit = emit
        self.words = _like(model, ir.IntegerType.get_signless(32))
        self.floats = _like(model, ir.F32Type.get())
        self.flags = _like(model, ir.IntegerType.get_signless(1))

    def integer(self, value: int) -> ir.Value:
        """Return a tile of one number, which may be unsigned."""
        return self.emit.constant(value, self.words)

    def op(self, name: str, a: ir.Value, b: Index) -> ir.Value:
        """Emit `arith.name`; `b` may be a number."""
        return self.emit.value(f"arith.{name}", [a, self.integer(b) if isinstance(b, int) else b], self.words)

    def compare(self, predicate: int, a: ir.Value, b: int) -> ir.Value:
        """Emit a comparison, an i1."""
        return self.emit.value("arith.cmpi", [a, self.integer(b)], self.flags, {"predicate": integer(predicate)})

    def select(self, condition: ir.Value, yes: Index, no: ir.Value) -> ir.Value:
        """Emit a choice; both values may be numbers."""
        values = [self.integer(v) if isinstance(v, int) else v for v in (yes, no)]
        return self.emit.value("arith.select", [condition, *values], self.words)

    def bits(self, value: ir.Value) -> ir.Value:
        """Return the bits of an f32."""
        return self.emit.value("arith.bitcast", [value], self.words)

    def number(self, bits: ir.Value) -> ir.Value:
        """Return the f32 with these bits."""
        return self.emit.value("arith.bitcast", [bits], self.floats)

    def real(self, name: str, a: ir.Value, b: float) -> ir.Value:
        """Emit `arith.name` of f32."""
        return self.emit.value(f"arith.{name}", [a, self.emit.constant(b, self.floats)], self.floats)


def _widen(emit: Emitter, value: ir.Value, source: Format) -> ir.Value:
    """Widen bytes to f32, exactly; NaN becomes the quiet one without payload."""
    k = _Words(emit, value.type)
    code = emit.value("arith.extsi", [value], k.words)
    magnitude = k.op("andi", code, _MAGNITUDE)
    shifted = k.op("shli", magnitude, source.shift)
    normal = k.op("addi", shifted, source.rebias << _F32_MANTISSA)
    small = k.real("mulf", emit.value("arith.sitofp", [magnitude], k.floats), source.step)
    bits = k.select(k.compare(_LESS, magnitude, 1 << source.mantissa), k.bits(small), normal)
    bits = k.select(k.compare(_AT_LEAST, magnitude, source.nans), _F32_NAN, bits)
    if source.infinity is not None:
        bits = k.select(k.compare(_EQUAL, magnitude, source.infinity), _F32_INFINITY, bits)
    return k.number(k.op("ori", bits, k.op("andi", code, _MOST_NEGATIVE)))


def _narrow(emit: Emitter, value: ir.Value, target: Format) -> ir.Value:
    """Narrow f32 to bytes, to nearest even; too large is infinite, or NaN where there is no infinity."""
    k = _Words(emit, value.type)
    all_bits = k.bits(value)
    bits = k.op("andi", all_bits, _F32_MAGNITUDE)
    odd = k.op("andi", k.op("shrui", bits, target.shift), 1)
    rounded = k.op("addi", k.op("addi", bits, (1 << target.shift - 1) - 1), odd)
    normal = k.op("subi", k.op("shrui", rounded, target.shift), target.rebias << target.mantissa)
    # Added to 2^23 steps, a number is rounded to whole steps, and they are the sum's last bits.
    magic = target.step * 2.0**_F32_MANTISSA
    total = k.bits(k.real("addf", k.number(bits), magic))
    small = k.op("subi", total, int(np.float32(magic).view(np.int32)))
    code = k.select(k.compare(_LESS, bits, target.rebias + 1 << _F32_MANTISSA), small, normal)
    beyond = target.nan if target.infinity is None else target.infinity
    code = k.select(k.compare(_GREATER, bits, target.overflow), beyond, code)
    if target.infinity is not None:
        code = k.select(k.compare(_GREATER, bits, _F32_INFINITY), target.nan, code)
    signed = k.op("ori", code, k.op("andi", k.op("shrui", all_bits, 24), _SIGN))
    return emit.value("arith.trunci", [signed], _bytes(value.type))


def _as_f32(emit: Emitter, value: ir.Value) -> ir.Value:
    """Convert a float to f32: exactly, or of f64 so that rounding once more is as good as rounding once."""
    source = str(_element(value.type))
    k = _Words(emit, value.type)
    if source in ("f16", "bf16"):
        return emit.value("arith.extf", [value], k.floats)
    return _to_odd(emit, value, k) if source == "f64" else value


def _to_odd(emit: Emitter, value: ir.Value, k: _Words) -> ir.Value:
    """Round f64 to f32, to odd: inexact ones become the neighbour towards zero with its last bit set."""
    kind = value.type
    near = emit.value("arith.truncf", [value], k.floats)
    back = emit.value("arith.extf", [near], kind)
    sizes = [emit.value("math.absf", [v], kind) for v in (back, value)]
    compare: Callable[[int, list[ir.Value]], ir.Value] = lambda predicate, pair: emit.value(  # noqa: E731
        "arith.cmpf", pair, k.flags, {"predicate": integer(predicate)}
    )
    step = emit.value("arith.extui", [compare(_FARTHER, sizes)], k.words)
    odd = k.op("ori", k.op("subi", k.bits(near), step), 1)
    return k.number(k.select(compare(_DIFFERENT, [back, value]), odd, k.bits(near)))
