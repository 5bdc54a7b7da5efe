"""Arithmetic of a Program as upstream `arith` and `math` operations, with the guards its semantics ask for.

Nothing here can trap or give poison: division by zero, the one signed quotient that overflows, shifts by too much
and conversions out of range are all guarded.  Every function works on scalars and on tiles alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import BY_NAME, DType, bf16, f32
from tessera.core.mlir import ir
from tessera.core.program.types import Scalar, Tile
from tessera.core.tile.types import BOOL, element, like
from tessera.lowering.analysis.intervals import Interval
from tessera.lowering.base.attributes import integer
from tessera.lowering.base.emit import Emitter

# numbers of MLIR's comparison predicates
_ORDERED: Final = {"lt": 4, "le": 5, "gt": 2, "ge": 3, "eq": 1, "ne": 13}  # ne: unordered or different
_SIGNED: Final = {"lt": 2, "le": 3, "gt": 4, "ge": 5, "eq": 0, "ne": 1}
_UNSIGNED: Final = {"lt": 6, "le": 7, "gt": 8, "ge": 9, "eq": 0, "ne": 1}

# opcode -> operation on (floats, signed, unsigned, bools); "" where the operation is made of several
_DIRECT: Final = {
    "add": ("arith.addf", "arith.addi", "arith.addi", "arith.ori"),
    "sub": ("arith.subf", "arith.subi", "arith.subi", "arith.xori"),
    "mul": ("arith.mulf", "arith.muli", "arith.muli", "arith.andi"),
    "div": ("arith.divf", "", "", ""),
    "min": ("arith.minimumf", "arith.minsi", "arith.minui", "arith.andi"),
    "max": ("arith.maximumf", "arith.maxsi", "arith.maxui", "arith.ori"),
    "pow": ("math.powf", "", "", ""),
    "and": ("", "arith.andi", "arith.andi", "arith.andi"),
    "or": ("", "arith.ori", "arith.ori", "arith.ori"),
    "xor": ("", "arith.xori", "arith.xori", "arith.xori"),
    "neg": ("arith.negf", "", "", ""),
    "abs": ("math.absf", "math.absi", "", ""),
    "fma": ("math.fma", "", "", ""),
}
_COLUMN: Final = {"float": 0, "int": 1, "uint": 2, "bool": 3}
_FLOAT_FUNCTIONS: Final = frozenset(
    ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "floor", "ceil")
)
_CUTS: Final = {32: ((24, 8),), 64: ((24, 14), (38, 28), (52, 40))}
"""Integers by bits: from which power of two on how many low bits are cut, so that f32 holds what is left."""
_WIDEST: Final = 64
_IDENTITY_ON_INTEGERS: Final = frozenset(("floor", "ceil", "abs"))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Emits the operations of one kernel through `emit`."""

    emit: Emitter

    def operation(
        self, opcode: str, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None] = ()
    ) -> ir.Value | None:
        """Emit `opcode` on `values`, all of type `kind`; return None when there is no such operation.

        `known` has the interval of each operand where there is one: it spares guards.
        """
        known = known or [None] * len(values)
        dtype = kind.dtype
        if opcode in _FLOAT_FUNCTIONS and dtype.is_float:
            return self._op(f"math.{opcode}", values, kind)
        direct = _DIRECT.get(opcode, ("", "", "", ""))[_COLUMN[dtype.kind]]
        if direct:
            return self._op(direct, values, kind)
        if opcode in _IDENTITY_ON_INTEGERS:
            return values[0]
        compound: dict[str, Callable[[Scalar | Tile, list[ir.Value], Sequence[Interval | None]], ir.Value]] = {
            "div": self._integer_quotient,
            "floordiv": self._floordiv,
            "mod": self._mod,
            "shl": self._shift_left,
            "shr": self._shift_right,
            "pow": self._integer_power,
            "mulhi": lambda k, v, _: self._upper_half(k, v[0], v[1]),
            "neg": lambda k, v, _: self._op("arith.subi", [self._const(0, k), v[0]], k),
            "not": lambda k, v, _: self._op("arith.xori", [v[0], self._const(-1, k)], k),
            "fma": lambda k, v, _: self._op("arith.addi", [self._op("arith.muli", v[:2], k), v[2]], k),
        }
        return compound[opcode](kind, values, known) if opcode in compound else None

    def compare(self, predicate: str, kind: Scalar | Tile, left: ir.Value, right: ir.Value) -> ir.Value:
        """Compare two values of type `kind`: booleans of that shape.  NaN differs from everything."""
        if kind.dtype.is_float:
            name, table = "arith.cmpf", _ORDERED
        else:
            name, table = "arith.cmpi", _SIGNED if kind.dtype.kind == "int" else _UNSIGNED
        return self.emit.value(name, [left, right], like(kind, BOOL), {"predicate": integer(table[predicate])})

    def cast(self, value: ir.Value, kind: Scalar | Tile, to: DType) -> ir.Value:
        """Convert `value` of type `kind` to `to`: floats round to nearest even, float to integer saturates."""
        source, result = kind.dtype, like(kind, element(to))
        if source == to:
            return value
        if (source.is_storage and not to.is_float) or (to.is_storage and not source.is_float):
            # f32 holds every integer that does not overflow a float of 8 bits, so both ways round once.
            return self.cast(self.cast(value, kind, f32), _as(kind, f32), to)
        if to.kind == "bool":
            return self.compare("ne", kind, value, self._const(0, kind))
        if source.is_float:
            return self._float_to_float(value, kind, to) if to.is_float else self._saturate(value, kind, to)
        if to == bf16 and source.bits in _CUTS:
            return self._wide_integer_to_bf16(value, kind)
        if to.is_float:
            return self.emit.value("arith.sitofp" if source.kind == "int" else "arith.uitofp", [value], result)
        if source.bits == to.bits:
            return value
        if source.bits > to.bits:
            return self.emit.value("arith.trunci", [value], result)
        return self.emit.value("arith.extsi" if source.kind == "int" else "arith.extui", [value], result)

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Emit `yes` where `condition` holds, else `no`."""
        return self.emit.value("arith.select", [condition, yes, no], yes.type)

    # -- floats ------------------------------------------------------------------------------------------------

    def _float_to_float(self, value: ir.Value, kind: Scalar | Tile, to: DType) -> ir.Value:
        result = like(kind, element(to))
        if kind.dtype.bits < to.bits:
            return self.emit.value("arith.extf", [value], result)
        if kind.dtype.bits == to.bits:  # f16 and bf16: by way of f32, which holds both
            value = self.emit.value("arith.extf", [value], like(kind, "f32"))
        return self.emit.value("arith.truncf", [value], result)

    def _wide_integer_to_bf16(self, value: ir.Value, kind: Scalar | Tile) -> ir.Value:
        """Convert an integer of 32 or 64 bits by way of f32, which holds 24 bits of it, rounded once.

        Large ones are rounded to odd: without the bits that do not fit, and an odd last bit if one of those was set.
        What is left has at least two bits more than bf16, so the last rounding cannot notice that.  f16 has no need of
        it: what f32 does not hold is infinite in f16.
        """
        size = self._op("math.absi", [value], kind) if kind.dtype.kind == "int" else value
        lost = self._const(0, kind)
        for held, cut in _CUTS[kind.dtype.bits]:
            attributes = {"predicate": integer(_UNSIGNED["ge"])}
            large = self.emit.value("arith.cmpi", [size, self._const(1 << held, kind)], like(kind, BOOL), attributes)
            lost = self.select(large, self._const((1 << cut) - 1, kind), lost)
        low, zero = self._op("arith.andi", [value, lost], kind), self._const(0, kind)
        odd = self._op("arith.addi", [lost, self._const(1, kind)], kind)
        sticky = self.select(self.compare("eq", kind, low, zero), zero, odd)
        kept = self._op("arith.ori", [self._op("arith.subi", [value, low], kind), sticky], kind)
        return self._float_to_float(self.cast(kept, kind, f32), _as(kind, f32), bf16)

    def _saturate(self, value: ir.Value, kind: Scalar | Tile, to: DType) -> ir.Value:
        """Convert a float to an integer, towards zero, saturating; NaN gives 0."""
        signed = to.kind == "int"
        if kind.dtype.bits < f32.bits:
            value, kind = self.emit.value("arith.extf", [value], like(kind, "f32")), _as(kind, f32)
        low, high = (-(1 << (to.bits - 1)), 1 << (to.bits - 1)) if signed else (0, 1 << to.bits)
        # Powers of two and zero are exact in f32 and f64; largest = high - 1 often is not.
        floor, ceiling = self._const(low, kind), self._const(high, kind)
        under, over = self.compare("lt", kind, value, floor), self.compare("ge", kind, value, ceiling)
        inside = self.emit.value(
            "arith.andi",
            [self.compare("ge", kind, value, floor), self.compare("lt", kind, value, ceiling)],
            like(kind, BOOL),
        )
        safe = self.select(inside, value, self._const(0, kind))
        target = _as(kind, to)
        number = self.emit.value("arith.fptosi" if signed else "arith.fptoui", [safe], like(kind, element(to)))
        number = self.select(under, self._const(low, target), number)
        return self.select(over, self._const(high - 1, target), number)

    def _float_divmod(self, kind: Scalar | Tile, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Emit Python's `//` and `%` of floats, step by step as NumPy's `divmod` does them; f16 and bf16 in f32."""
        zero, one = self._const(0, kind), self._const(1, kind)
        remainder = self._op("arith.remf", [a, b], kind)
        quotient = self._op("arith.divf", [self._op("arith.subf", [a, remainder], kind), b], kind)
        exact = self.compare("eq", kind, remainder, zero)
        signs = self.emit.value(
            "arith.xori",
            [self.compare("lt", kind, remainder, zero), self.compare("lt", kind, b, zero)],
            like(kind, BOOL),
        )
        moved = self.select(signs, self._op("arith.addf", [remainder, b], kind), remainder)
        modulus = self.select(exact, self._op("math.copysign", [zero, b], kind), moved)
        lower = self._op("arith.subf", [quotient, one], kind)
        needs_adjustment = self.emit.value(
            "arith.andi", [signs, self.compare("ne", kind, remainder, zero)], like(kind, BOOL)
        )
        quotient = self.select(needs_adjustment, lower, quotient)
        whole = self._op("math.floor", [quotient], kind)
        off = self.compare("gt", kind, self._op("arith.subf", [quotient, whole], kind), self._const(0.5, kind))
        whole = self.select(off, self._op("arith.addf", [whole, one], kind), whole)
        ratio = self._op("arith.divf", [a, b], kind)
        signed_zero = self._op("math.copysign", [zero, ratio], kind)
        whole = self.select(self.compare("eq", kind, quotient, zero), signed_zero, whole)
        by_zero = self.compare("eq", kind, b, zero)
        return self.select(by_zero, ratio, whole), self.select(by_zero, remainder, modulus)

    def _divmod_of_floats(self, kind: Scalar | Tile, values: list[ir.Value], which: int) -> ir.Value:
        if kind.dtype.bits >= f32.bits:
            return self._float_divmod(kind, values[0], values[1])[which]
        wide = _as(kind, f32)
        a, b = (self.cast(v, kind, f32) for v in values)
        return self.cast(self._float_divmod(wide, a, b)[which], wide, kind.dtype)

    # -- integers ----------------------------------------------------------------------------------------------

    def _floordiv(self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]) -> ir.Value:
        if kind.dtype.is_float:
            return self._divmod_of_floats(kind, values, 0)
        return self._integer_divmod(kind, values, known)[0]

    def _mod(self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]) -> ir.Value:
        if kind.dtype.is_float:
            return self._divmod_of_floats(kind, values, 1)
        return self._integer_divmod(kind, values, known)[1]

    def _integer_quotient(self, kind: Scalar | Tile, values: list[ir.Value], _: Sequence[Interval | None]) -> ir.Value:
        """Emit the quotient towards zero; 0 for a divisor of 0."""
        a, b = values
        by_zero = self._is(kind, b, 0)
        name = "arith.divsi" if kind.dtype.kind == "int" else "arith.divui"
        quotient = self._op(name, [a, self._safe_divisor(kind, a, b, by_zero, signed=name == "arith.divsi")], kind)
        return self.select(by_zero, self._const(0, kind), quotient)

    def _integer_divmod(
        self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]
    ) -> tuple[ir.Value, ir.Value]:
        """Emit quotient towards minus infinity and remainder with the divisor's sign; both 0 for a divisor of 0."""
        a, b = values
        dividend, divisor = known
        signed = kind.dtype.kind == "int"
        positive = divisor is not None and divisor[0] > 0
        if divisor is not None and divisor[0] >= 0 and dividend is not None and dividend[0] >= 0:
            signed = False
        names = ("arith.divsi", "arith.remsi") if signed else ("arith.divui", "arith.remui")
        by_zero = None if positive or (divisor is not None and divisor[1] < 0) else self._is(kind, b, 0)
        safe = b if positive else self._safe_divisor(kind, a, b, by_zero, signed=signed)
        quotient, remainder = (self._op(name, [a, safe], kind) for name in names)
        if signed:
            quotient, remainder = self._rounded_down(kind, quotient, remainder, safe, positive)
        # The divisor 1 that stands in for 0 leaves remainder 0, but the dividend as quotient.
        zeroed = quotient if by_zero is None else self.select(by_zero, self._const(0, kind), quotient)
        return zeroed, remainder

    def _rounded_down(
        self, kind: Scalar | Tile, quotient: ir.Value, remainder: ir.Value, divisor: ir.Value, positive: bool
    ) -> tuple[ir.Value, ir.Value]:
        """Turn a division that rounds towards zero into one that rounds down: one less where signs differ."""
        zero = self._const(0, kind)
        if positive:
            needs_adjustment = self.compare("lt", kind, remainder, zero)
        else:
            signs = self._op("arith.xori", [remainder, divisor], kind)
            different = self.compare("lt", kind, signs, zero)
            inexact = self.compare("ne", kind, remainder, zero)
            needs_adjustment = self.emit.value("arith.andi", [inexact, different], like(kind, BOOL))
        lower = self._op("arith.subi", [quotient, self._const(1, kind)], kind)
        moved = self._op("arith.addi", [remainder, divisor], kind)
        return self.select(needs_adjustment, lower, quotient), self.select(needs_adjustment, moved, remainder)

    def _safe_divisor(
        self, kind: Scalar | Tile, a: ir.Value, b: ir.Value, by_zero: ir.Value | None, *, signed: bool
    ) -> ir.Value:
        """Return `b`, or 1 where dividing by it would trap: zero, and the smallest integer by -1."""
        unsafe = by_zero
        if signed:
            overflow = self.emit.value(
                "arith.andi",
                [self._is(kind, a, -(1 << (kind.dtype.bits - 1))), self._is(kind, b, -1)],
                like(kind, BOOL),
            )
            unsafe = overflow
            if by_zero is not None:
                unsafe = self.emit.value("arith.ori", [by_zero, overflow], like(kind, BOOL))
        return b if unsafe is None else self.select(unsafe, self._const(1, kind), b)

    def _is(self, kind: Scalar | Tile, value: ir.Value, number: int) -> ir.Value:
        return self.compare("eq", kind, value, self._const(number, kind))

    def _shift_left(self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]) -> ir.Value:
        if _within(known[1], kind.dtype.bits):
            return self._op("arith.shli", values, kind)
        fits, amount = self._amount(kind, values[1])
        return self.select(fits, self._op("arith.shli", [values[0], amount], kind), self._const(0, kind))

    def _shift_right(self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]) -> ir.Value:
        signed, width = kind.dtype.kind == "int", kind.dtype.bits
        name = "arith.shrsi" if signed else "arith.shrui"
        if _within(known[1], width):
            return self._op(name, values, kind)
        if signed:  # by width - 1 or more, only the sign is left
            amount = self._op("arith.minui", [values[1], self._const(width - 1, kind)], kind)
            return self._op(name, [values[0], amount], kind)
        fits, amount = self._amount(kind, values[1])
        return self.select(fits, self._op(name, [values[0], amount], kind), self._const(0, kind))

    def _amount(self, kind: Scalar | Tile, shift: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return whether a shift is below the width (a negative one is not), and the shift, 0 where it is not."""
        attributes = {"predicate": integer(_UNSIGNED["lt"])}
        bound = self._const(kind.dtype.bits, kind)
        fits = self.emit.value("arith.cmpi", [shift, bound], like(kind, BOOL), attributes)
        return fits, self.select(fits, shift, self._const(0, kind))

    def _integer_power(self, kind: Scalar | Tile, values: list[ir.Value], known: Sequence[Interval | None]) -> ir.Value:
        """Emit `base ** exponent` modulo 2**bits by squaring; a negative exponent gives the power's whole part."""
        one = self._const(1, kind)
        if known[1] is not None and known[1][0] == known[1][1] and _within(known[1], kind.dtype.bits):
            return self._known_power(kind, values[0], known[1][0])
        steps = [self.emit.constant(n, "i64") for n in (0, kind.dtype.bits, 1)]
        carried = [one, *values]
        loop = self.emit.create("scf.for", [*steps, *carried], [v.type for v in carried], regions=1)
        types = [self.emit.type("i64"), *(v.type for v in carried)]
        body = loop.regions[0].blocks.append(*types, arg_locs=[self.emit.location] * len(types))
        with self.emit.at(body):
            _, product, base, exponent = body.arguments
            one_inside = self._const(1, kind)
            bit = self._op("arith.andi", [exponent, one_inside], kind)
            odd = self.compare("ne", kind, bit, self._const(0, kind))
            product = self.select(odd, self._op("arith.muli", [product, base], kind), product)
            base = self._op("arith.muli", [base, base], kind)
            exponent = self._op("arith.shrui", [exponent, one_inside], kind)
            self.emit.create("scf.yield", [product, base, exponent])
        power = loop.results[0]
        if kind.dtype.kind == "uint":
            return power
        # Of the bases, only 1 and -1 have a power with a negative exponent whose whole part is not 0.
        magnitude = self._op("math.absi", [values[0]], kind)
        unit = self.compare("eq", kind, magnitude, one)
        negative = self.compare("lt", kind, values[1], self._const(0, kind))
        return self.select(negative, self.select(unit, power, self._const(0, kind)), power)

    def _known_power(self, kind: Scalar | Tile, base: ir.Value, exponent: int) -> ir.Value:
        product = None
        while exponent:
            if exponent & 1:
                product = base if product is None else self._op("arith.muli", [product, base], kind)
            exponent >>= 1
            base = self._op("arith.muli", [base, base], kind) if exponent else base
        return self._const(1, kind) if product is None else product

    def _upper_half(self, kind: Scalar | Tile, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit the upper half of `a * b`: of the product in twice the width, or for 64 bits of products of halves."""
        dtype = kind.dtype
        if dtype.bits == _WIDEST:
            return self._upper_half_of_64(kind, a, b)
        to = BY_NAME[f"{'i' if dtype.kind == 'int' else 'u'}{2 * dtype.bits}"]
        wide = _as(kind, to)
        product = self._op("arith.muli", [self.cast(v, kind, to) for v in (a, b)], wide)
        half = self._op("arith.shrui", [product, self._const(dtype.bits, wide)], wide)
        return self.cast(half, wide, dtype)

    def _upper_half_of_64(self, kind: Scalar | Tile, a: ir.Value, b: ir.Value) -> ir.Value:
        """Multiply by halves, as schoolbooks do (Warren, Hacker's Delight, 8-2: no intermediate sum overflows)."""
        width, mask = self._const(_WIDEST // 2, kind), self._const((1 << _WIDEST // 2) - 1, kind)

        def parts(value: ir.Value) -> tuple[ir.Value, ir.Value]:
            return self._op("arith.andi", [value, mask], kind), self._op("arith.shrui", [value, width], kind)

        def plus(x: ir.Value, *others: ir.Value) -> ir.Value:
            for other in others:
                x = self._op("arith.addi", [x, other], kind)
            return x

        (a_low, a_high), (b_low, b_high) = parts(a), parts(b)
        low, cross, other, high = (
            self._op("arith.muli", [x, y], kind)
            for x, y in ((a_low, b_low), (a_high, b_low), (a_low, b_high), (a_high, b_high))
        )
        middle, carried = parts(plus(cross, parts(low)[1]))
        total = plus(high, carried, parts(plus(other, middle))[1])
        if kind.dtype.kind == "uint":
            return total
        # A negative factor was taken as 2**64 more than it is.
        zero = self._const(0, kind)
        for side, more in ((a, b), (b, a)):
            surplus = self.select(self.compare("lt", kind, side, zero), more, zero)
            total = self._op("arith.subi", [total, surplus], kind)
        return total

    # -- small parts -------------------------------------------------------------------------------------------

    def _op(self, name: str, values: list[ir.Value], kind: Scalar | Tile) -> ir.Value:
        return self.emit.value(name, values, like(kind, element(kind.dtype)))

    def _const(self, value: float, kind: Scalar | Tile) -> ir.Value:
        dtype = kind.dtype
        return self.emit.constant(wrapped(value, dtype), like(kind, element(dtype)))


def _within(interval: Interval | None, end: int) -> bool:
    return interval is not None and interval[0] >= 0 and interval[1] < end


def wrapped(value: float, dtype: DType) -> float:
    """Return `value` as MLIR takes it: integers as the signed number with the same bits."""
    if dtype.is_float:
        return float(value)
    bits = dtype.bits
    number = int(value) & ((1 << bits) - 1)
    return number - (1 << bits) if number >> (bits - 1) and bits > 1 else number


def _as(kind: Scalar | Tile, dtype: DType) -> Scalar | Tile:
    """Return the scalar or tile like `kind` with another element type."""
    return Tile(dtype, kind.shape) if isinstance(kind, Tile) else Scalar(dtype)
