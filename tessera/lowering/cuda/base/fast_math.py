"""Emit the fast-math forms of a kernel with `fast=True`: hardware approximations and fused multiply-adds.

Without it every function returns the same bits as on the other targets (`vector_math`).  With it, in f32 (16-bit
floats are converted to f32 and back, f64 is unaffected), denormals count as zero and the errors are those of the PTX
ISA's `.approx` instructions:

    exp           2 + 1.2 |x| ulp           2 instructions: a multiplication, MUFU.EX2
    exp2          2 ulp                     1
    log           3 ulp; absolute 2^-21.4 for x in [0.5, 2]    2
    log2          2 ulp; absolute 2^-22 for x in [0.5, 2]      1
    sqrt, rsqrt   2 ulp                     2, 1
    sin, cos      absolute 2^-20.9 for |x| <= pi, more beyond it    2
    tanh          absolute 2^-21.5 (f32), relative 2^-10.9 (16-bit floats)    6, 1
    erf           2 ulp for |x| < 1, absolute 2^-22 beyond it      about 20
    a / b         2 ulp                     about 6

Where a product is added, both round once together.  Sums keep their association.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda.base.inline_ptx import inline_ptx
from tessera.lowering.math.saturating import ERF_NEAR

# log2(1 - erf(x)) from 1 to 4: minimax in the absolute error of erf (Lawson's iteration), which is 2^-24.4 in f32.
_LOG2_ERFC: Final = (
    -0.0038544770945196693, -1.6121228653947914, -0.9442280896992831, -0.12787199141249583, 0.021320288787406105,
    -0.0016597040265180496,
)  # fmt: skip
CONTRACTED: Final = frozenset(("arith.addf", "arith.subf", "arith.mulf"))
"""Operations that may become part of a fused multiply-add."""
_CONTRACT: Final = "#arith.fastmath<contract>"


def fast_operation(
    emit: Emitter,
    name: str,
    operands: Sequence[ir.Value],
    result: str,
    attributes: Mapping[str, ir.Attribute | str],
    narrow: bool = False,
) -> ir.Value | None:
    """Return the value of an operation on f32 scalars in its fast form; None where it has none.

    narrow: the result is rounded to 16 bits anyway
    """
    if result in ("f32", "f64", "f16", "bf16") and name in CONTRACTED:
        return emit.value(name, operands, result, {**attributes, "fastmath": _CONTRACT})
    if result != "f32":
        return None
    function = _FUNCTIONS.get(name)
    if name == "math.tanh" and narrow:
        return approximate(emit, "tanh.approx.f32", *operands)
    return None if function is None else function(emit, *operands)


def approximate(emit: Emitter, instruction: str, *operands: ir.Value) -> ir.Value:
    """Emit one PTX instruction with f32 operands and an f32 result."""
    names = ", ".join(f"${number}" for number in range(len(operands) + 1))
    constraints = ",".join(["=f", *["f"] * len(operands)])
    return inline_ptx(emit, f"{instruction} {names};", constraints, operands, ["f32"], effects=False, memory=False)[0]


def _one(instruction: str) -> Callable[..., ir.Value]:
    def emit_one(emit: Emitter, *operands: ir.Value) -> ir.Value:
        return approximate(emit, instruction, *operands)

    return emit_one


def _scaled(emit: Emitter, x: ir.Value, scale: float) -> ir.Value:
    return emit.value("arith.mulf", [x, emit.constant(scale, "f32")], "f32")


def _exp(emit: Emitter, x: ir.Value) -> ir.Value:
    return approximate(emit, "ex2.approx.ftz.f32", _scaled(emit, x, math.log2(math.e)))


def _log(emit: Emitter, x: ir.Value) -> ir.Value:
    return _scaled(emit, approximate(emit, "lg2.approx.ftz.f32", x), math.log(2.0))


def _tanh(emit: Emitter, x: ir.Value) -> ir.Value:
    """Emit 1 - 2 / (1 + e^(2x)): correct at both infinities, with an absolute error near zero."""
    grown = approximate(emit, "ex2.approx.ftz.f32", _scaled(emit, x, 2.0 * math.log2(math.e)))
    one = emit.constant(1.0, "f32")
    inverse = approximate(emit, "rcp.approx.ftz.f32", emit.value("arith.addf", [grown, one], "f32"))
    return emit.value("math.fma", [inverse, emit.constant(-2.0, "f32"), one], "f32")


def _erf(emit: Emitter, x: ir.Value) -> ir.Value:
    """Emit the polynomial of the exact form near zero, and 1 - 2^p(|x|) beyond 1."""
    magnitude = emit.value("math.absf", [x], "f32")
    square = emit.value("arith.mulf", [x, x], "f32")
    first, *rest = ERF_NEAR
    near = emit.value("math.fma", [x, _polynomial(emit, square, (first - 1.0, *rest)), x], "f32")
    # From 4 on the result is 1; minimumf keeps a NaN.
    clamped = emit.value("arith.minimumf", [magnitude, emit.constant(4.0, "f32")], "f32")
    left = approximate(emit, "ex2.approx.ftz.f32", _polynomial(emit, clamped, _LOG2_ERFC))
    far = emit.value("arith.subf", [emit.constant(1.0, "f32"), left], "f32")
    signed = emit.value("math.copysign", [far, x], "f32")
    small = emit.value("arith.cmpf", [magnitude, emit.constant(1.0, "f32")], "i1", {"predicate": "4 : i64"})
    return emit.value("arith.select", [small, near, signed], "f32")


def _polynomial(emit: Emitter, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Evaluate a polynomial by Horner's rule in fused multiply-adds, the constant first."""
    total = emit.constant(coefficients[-1], "f32")
    for coefficient in coefficients[-2::-1]:
        total = emit.value("math.fma", [total, x, emit.constant(coefficient, "f32")], "f32")
    return total


_FUNCTIONS: Final[Mapping[str, Callable[..., ir.Value]]] = {
    "math.exp": _exp,
    "math.exp2": _one("ex2.approx.ftz.f32"),
    "math.log": _log,
    "math.log2": _one("lg2.approx.ftz.f32"),
    "math.sqrt": _one("sqrt.approx.ftz.f32"),
    "math.rsqrt": _one("rsqrt.approx.ftz.f32"),
    "math.sin": _one("sin.approx.ftz.f32"),
    "math.cos": _one("cos.approx.ftz.f32"),
    "math.tanh": _tanh,
    "math.erf": _erf,
    "arith.divf": _one("div.full.f32"),
}
