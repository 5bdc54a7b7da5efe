"""Lower one `arith` or `math` operation on scalars for the GPU: rounded once, nothing contracted.

16-bit floats compute in f32 and round back.  Mathematical functions are those of the CPU target (`vector_math`), the
same operations in the same order, so both targets return the same bits.  A kernel with `fast=True` uses
`fast_math` instead.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import ir
from tessera.core.program.spec import IN_RANGE
from tessera.lowering.cuda.base.exact_quotients import exact_in_range
from tessera.lowering.cuda.base.fast_math import fast_operation
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.math.vector_math import NAMES, emit_math

NOT_POSITIVE: Final = "not_positive"
"""An attribute that says that the operand is at most 0, or NaN."""
_HALVES: Final = ("f16", "bf16")
# Operations on 16-bit floats that need no wider type: those that move bits, and the fused multiply-add, which rounds
# once (through f32 it would round twice, and 24 bits are too few for a sum of 22 and 11 bits).
_NARROW: Final = frozenset(
    ("arith.select", "arith.constant", "arith.bitcast", "arith.extf", "arith.truncf", "math.fma")
)
_FUNCTIONS: Final = {"math.powf": "pow"}
_PLAIN_MATH: Final = frozenset(
    ("math.absf", "math.absi", "math.fma", "math.sqrt", "math.floor", "math.ceil", "math.copysign", "math.roundeven",
     "math.ctlz", "math.trunc")
)  # fmt: skip


def scalar_operation(
    build: IndexBuilder,
    name: str,
    operands: Sequence[ir.Value],
    result: str,
    attributes: Mapping[str, ir.Attribute | str],
    narrow: bool = False,
) -> ir.Value:
    """Emit operation `name` (`arith.addf`) on scalar values and return its result, whose type has the text `result`.

    narrow: the result is rounded to 16 bits next

    Raises:
        NotOnCuda: a function the GPU has no code for.
    """
    floats = [str(v.type) for v in operands if str(v.type) in _HALVES]
    if name == "arith.truncf" and str(operands[0].type) == "f64" and result in _HALVES:
        return _narrow_double(build, operands[0], result)
    if floats and name not in _NARROW:
        return _wide(build, name, operands, result, attributes)
    quick = _quick(build, name, operands, result, attributes, narrow)
    if quick is not None:
        return quick
    if name == "arith.remf":
        return _remainder(build, operands)
    if name in ("arith.shli", "arith.shrui") and result == "i64" and build.known(operands[1]) is None:
        # LLVM takes a select that guards such a shift for PTX's own clamping, and loses the amount's upper half.
        amount = build.value("arith.andi", [operands[1], build.index(63)], "i64")
        return build.value(name, [operands[0], amount], result)
    if name in _PLAIN_MATH or name.startswith("arith."):
        return build.value(name, operands, result, attributes)
    function = _FUNCTIONS.get(name, name.partition(".")[2])
    if function == "exp" and NOT_POSITIVE in attributes:
        function = "exp_not_positive"
    if function in NAMES:
        return emit_math(build, function, operands, result)
    message = f"the CUDA target has no code for {function} of {result}"
    raise NotOnCuda(message)


def _quick(
    build: IndexBuilder,
    name: str,
    operands: Sequence[ir.Value],
    result: str,
    attributes: Mapping[str, ir.Attribute | str],
    narrow: bool,
) -> ir.Value | None:
    """Return the operation in a shorter form than that for any operands, None where it has none."""
    if build.fast:
        return fast_operation(build, name, operands, result, attributes, narrow)
    if IN_RANGE in attributes and result == "f32":
        return exact_in_range(build, name, operands)
    return None


def _wide(
    build: IndexBuilder,
    name: str,
    operands: Sequence[ir.Value],
    result: str,
    attributes: Mapping[str, ir.Attribute | str],
) -> ir.Value:
    """Emit the operation on f32 copies of its 16-bit operands."""
    values = [build.value("arith.extf", [v], "f32") if str(v.type) in _HALVES else v for v in operands]
    narrow = result in _HALVES
    value = scalar_operation(build, name, values, "f32" if narrow else result, attributes, narrow)
    return build.value("arith.truncf", [value], result) if narrow else value


def _narrow_double(build: IndexBuilder, value: ir.Value, result: str) -> ir.Value:
    """Convert f64 to a 16-bit float with one rounding: through f32 by rounding to odd, which hides the first one."""
    near = build.value("arith.truncf", [value], "f32")
    back = build.value("arith.extf", [near], "f64")
    bits = build.value("arith.bitcast", [near], "i32")
    # Where f32 was inexact, set the last bit of the neighbour towards zero; where it is odd already, keep it.
    beyond = _compare_floats(build, "ogt", _magnitude(build, back), _magnitude(build, value))
    step = build.value("arith.extui", [beyond], "i32")
    inward = build.value("arith.subi", [bits, step], "i32")
    odd = build.value("arith.ori", [inward, build.word(1)], "i32")
    inexact = _compare_floats(build, "one", back, value)
    chosen = build.select(inexact, odd, bits)
    return build.value("arith.truncf", [build.value("arith.bitcast", [chosen], "f32")], result)


def _remainder(build: IndexBuilder, operands: Sequence[ir.Value]) -> ir.Value:
    """Return the exact remainder of a truncating division of floats, as C's `fmod`.

    It is a long division in f64, one step for each set bit of the quotient; NaN for an infinite dividend or a zero
    divisor.
    """
    a, b = operands
    kind = str(a.type)
    wide = [build.value("arith.extf", [v], "f64") for v in operands] if kind == "f32" else [a, b]
    x, y = (_magnitude(build, v) for v in wide)
    r = _reduce(build, x, y)
    # What no subtraction defines: an infinite or NaN operand, a divisor of zero.
    infinity, zero, nan = (build.constant(v, "f64") for v in (float("inf"), 0.0, float("nan")))
    usable = build.both(_compare_floats(build, "olt", x, infinity), _compare_floats(build, "ogt", y, zero))
    r = build.select(usable, r, nan)
    signed = build.value("math.copysign", [r, wide[0]], "f64")
    return build.value("arith.truncf", [signed], "f32") if kind == "f32" else signed


def _reduce(build: IndexBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x modulo y for finite x >= 0 and y > 0 (any x and y end): subtract y * 2^k, exactly, while x >= y."""
    huge = build.constant(float("inf"), "f64")
    op = build.create("scf.while", [x], ["f64"], regions=2)
    before = op.regions[0].blocks.append(build.type("f64"), arg_locs=[build.location])
    with build.at(before):
        rest = before.arguments[0]
        more = build.both(
            _compare_floats(build, "oge", rest, y),
            _compare_floats(build, "ogt", y, build.constant(0.0, "f64")),
            _compare_floats(build, "olt", rest, huge),
        )
        build.create("scf.condition", [more, rest])
    after = op.regions[1].blocks.append(build.type("f64"), arg_locs=[build.location])
    with build.at(after):
        rest = after.arguments[0]
        build.create("scf.yield", [build.value("arith.subf", [rest, _largest_multiple(build, rest, y)], "f64")])
    return op.results[0]


def _largest_multiple(build: IndexBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return y * 2^k <= x with k as large as the exponents allow (x >= y > 0), exactly."""
    distance = build.sub(_exponent(build, x), _exponent(build, y))
    # 2^distance in three factors, none of which overflows whatever the distance.
    third = build.divide(distance, 3)
    scaled = y
    for part in (third, third, build.sub(distance, build.mul(third, 2))):
        power = build.value("arith.shli", [build.index(build.add(part, 1023)), build.index(52)], "i64")
        scaled = build.value("arith.mulf", [scaled, build.value("arith.bitcast", [power], "f64")], "f64")
    lower = build.value("arith.mulf", [scaled, build.constant(0.5, "f64")], "f64")
    fits = _compare_floats(build, "ole", scaled, x)
    return build.select(fits, scaled, lower)


def _exponent(build: IndexBuilder, value: ir.Value) -> ir.Value:
    """Return the biased exponent of a positive f64; that of a denormal continues below zero."""
    denormal = _compare_floats(build, "olt", value, build.constant(2.0**-1022, "f64"))
    normal = build.select(denormal, build.value("arith.mulf", [value, build.constant(2.0**52, "f64")], "f64"), value)
    bits = build.value("arith.bitcast", [normal], "i64")
    exponent = build.value("arith.shrui", [bits, build.index(52)], "i64")
    return build.select(denormal, build.sub(exponent, 52), exponent)


_FLOAT_PREDICATES: Final = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6}


def _compare_floats(build: IndexBuilder, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return build.value("arith.cmpf", [a, b], "i1", {"predicate": f"{_FLOAT_PREDICATES[predicate]} : i64"})


def _magnitude(build: IndexBuilder, value: ir.Value) -> ir.Value:
    return build.value("math.absf", [value], value.type)
