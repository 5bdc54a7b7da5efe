"""Mathematical functions on scalars and vectors of any length, without a single call of a library.

`emit_math` is the door: f64 and f32 have code of their own, f16 and bf16 go through f32 and round once at the end.
The results depend on the operand alone (never on the lane, the length or the machine).  Errors in units in the last
place (ulp), measured by `tests/lowering/cpu/test_vector_math.py`:

    exp, exp2, log          1 (exp_not_positive has the bits of exp where x <= 0)
    log2                    2
    sin, cos                1 (f32), 2 (f64), for arguments of any size
    tanh, erf               2
    pow                     1
    sqrt, floor, ceil, abs  rounded once
    rsqrt                   1 / sqrt(x), each rounded once
"""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.math.algebra import Algebra, shaped
from tessera.lowering.math.exponential import exp, exp2, exp_not_positive, log, log2
from tessera.lowering.math.float_conversions import lanes_and_element, narrow, widen
from tessera.lowering.math.power import power
from tessera.lowering.math.saturating import erf, tanh
from tessera.lowering.math.trigonometric import cos, sin


def _rsqrt(k: Algebra, x: ir.Value) -> ir.Value:
    return k.div(k.constant(1.0), k.op("math.sqrt", x))


def _upstream(name: str) -> Callable[..., ir.Value]:
    """Return an operation that processors have themselves, rounded once."""

    def emit(k: Algebra, *operands: ir.Value) -> ir.Value:
        return k.op(name, *operands)

    return emit


_FUNCTIONS: Final[dict[str, Callable[..., ir.Value]]] = {
    "exp": exp,
    "exp_not_positive": exp_not_positive,
    "exp2": exp2,
    "log": log,
    "log2": log2,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "erf": erf,
    "pow": power,
    "rsqrt": _rsqrt,
    "sqrt": _upstream("math.sqrt"),
    "floor": _upstream("math.floor"),
    "ceil": _upstream("math.ceil"),
    "abs": _upstream("math.absf"),
    "fma": _upstream("math.fma"),
}

NAMES: Final = frozenset(_FUNCTIONS)
"""The functions `emit_math` knows."""


def emit_math(emitter: Emitter, name: str, operands: Sequence[ir.Value], type_text: ir.Type | str) -> ir.Value:
    """Emit function `name` (of `NAMES`) of `operands`, all of the float type `type_text`; return its value.

    `type_text` is a scalar or vector type of f64, f32, f16 or bf16, as text or MLIR type.
    """
    kind = emitter.type(type_text)
    lanes, element = lanes_and_element(kind)
    if element in ("f16", "bf16"):
        wide = [widen(emitter, value) for value in operands]
        return narrow(emitter, emit_math(emitter, name, wide, shaped(lanes, "f32")), element)
    return _FUNCTIONS[name](Algebra(emitter, lanes, int(element[1:])), *operands)
