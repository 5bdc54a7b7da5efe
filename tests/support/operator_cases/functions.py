"""Rows of activations, exponentials and NumPy's functions of numbers."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, Numbers, f
from support.operators import Array
from tessera import op

TEXT: Final[Array] = "x"
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


def _sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def _halves(x: Numbers) -> Numbers:
    return x[..., : x.shape[-1] // 2] * _sigmoid(x[..., x.shape[-1] // 2 :])


def _one(
    name: str, want: Callable[[Numbers], Numbers], low: float = -2.0, high: float = 2.0, *, slack: float = 2.0,
    smooth: bool = True, call: Callable[[Array], Array] | None = None,
) -> Case:  # fmt: skip
    """Return the row of a function of one operand, element by element."""
    function = getattr(op, name)
    return Case(
        call or function, want, (f(5, 7, low=low, high=high),), ((lambda: function(TEXT), "'x' is no array"),), (f(3, 0),),
        slack=slack, smooth=smooth,
    )  # fmt: skip


def _two(
    name: str, want: Callable[[Numbers, Numbers], Numbers], low: float = -2.0, high: float = 2.0, *, slack: float = 2.0,
    smooth: bool = True,
) -> Case:  # fmt: skip
    """Return the row of a function of two operands, broadcast together."""
    function = getattr(op, name)
    return Case(
        function, want, (f(5, 7, low=low, high=high), f(7, low=0.5, high=2.0)),
        ((lambda: function(ELSE, np.ones(4)), "do not broadcast"), (lambda: function(ELSE, TEXT), "'x' is no array")),
        (f(0, 7), f(7)), slack=slack, smooth=smooth,
    )  # fmt: skip


ACTIVATIONS: Final[dict[str, Case]] = {
    "celu": _one("celu", lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), call=lambda x: op.celu(x, 2.0)),
    "elu": _one("elu", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), call=lambda x: op.elu(x, 0.5)),
    "glu": Case(
        op.glu, _halves, (f(5, 6),),
        ((lambda: op.glu(ELSE), "have no two halves"), (lambda: op.glu(ELSE, 1), "has no axis 1")), (f(0, 6),),
        (f(2, 5, 6),), slack=2,
    ),
    "hardsigmoid": _one("hardsigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, -5, 5),
    "hardswish": _one("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, -5, 5),
    "hardtanh": Case(
        lambda x: op.hardtanh(x, -0.5, 1.5), lambda x: np.clip(x, -0.5, 1.5), (f(5, 7),),
        ((lambda: op.hardtanh(ELSE, 1.0, -1.0), "has no numbers between"),), (f(3, 0),),
    ),
    "leaky_relu": _one("leaky_relu", lambda x: np.where(x > 0, x, 0.2 * x), call=lambda x: op.leaky_relu(x, 0.2)),
    "log_sigmoid": _one("log_sigmoid", lambda x: -np.log1p(np.exp(-x))),
    "mish": _one("mish", lambda x: x * np.tanh(np.log1p(np.exp(x))), slack=4),
    "relu6": _one("relu6", lambda x: np.clip(x, 0, 6), -4, 9),
    "selu": _one("selu", lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x))),
    "softsign": _one("softsign", lambda x: x / (1 + np.abs(x))),
}  # fmt: skip
NUMBERS: Final[dict[str, Case]] = {
    "arccos": _one("arccos", np.arccos, -0.9, 0.9),
    "arccosh": _one("arccosh", np.arccosh, 1.1, 9),
    "arcsin": _one("arcsin", np.arcsin, -0.9, 0.9),
    "arcsinh": _one("arcsinh", np.arcsinh),
    "arctan": _one("arctan", np.arctan),
    "arctan2": _two("arctan2", np.arctan2),
    "arctanh": _one("arctanh", np.arctanh, -0.9, 0.9),
    "cbrt": _one("cbrt", np.cbrt, 0.1, 9),
    "degrees": _one("degrees", np.degrees),
    "fmax": _two("fmax", np.fmax),
    "fmin": _two("fmin", np.fmin),
    "fmod": _two("fmod", np.fmod),
    "heaviside": _two("heaviside", np.heaviside),
    "logaddexp2": _two("logaddexp2", np.logaddexp2, slack=4),
    "radians": _one("radians", np.radians),
    "signbit": _one("signbit", np.signbit, smooth=False),
    "copysign": _two("copysign", np.copysign, smooth=False),
    "cosh": _one("cosh", np.cosh, slack=4),
    "expm1": _one("expm1", np.expm1, slack=4),
    "floor_divide": _two("floor_divide", np.floor_divide, smooth=False),
    "hypot": _two("hypot", np.hypot),
    "isfinite": _one("isfinite", np.isfinite, smooth=False),
    "isinf": _one("isinf", np.isinf, smooth=False),
    "isnan": _one("isnan", np.isnan, smooth=False),
    "log10": _one("log10", np.log10, 0.1, 9, slack=4),
    "log1p": _one("log1p", np.log1p, -0.9, 9),
    "logaddexp": _two("logaddexp", np.logaddexp),
    "logical_and": _two("logical_and", np.logical_and, smooth=False),
    "logical_not": _one("logical_not", np.logical_not, smooth=False),
    "logical_or": _two("logical_or", np.logical_or, smooth=False),
    "logical_xor": _two("logical_xor", np.logical_xor, smooth=False),
    "mod": _two("mod", np.mod),
    "nan_to_num": _one("nan_to_num", np.nan_to_num),
    "power": _two("power", np.power, 0.5, 2.0, slack=4),
    "reciprocal": _one("reciprocal", np.reciprocal, 0.5, 2.0),
    "remainder": _two("remainder", np.remainder),
    "sinh": _one("sinh", np.sinh, slack=4),
    "tan": _one("tan", np.tan, -1.4, 1.4, slack=4),
}  # fmt: skip
