"""Rows of NumPy's universal functions under its names."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from dataclasses import replace
from typing import Final

import numpy as np

from support.operator_cases.case import ELSE, Case, f, i
from support.operators import Array
from tessera import op

TEXT: Final[Array] = "x"
WHOLE: Final = np.arange(3)


def _one(name: str, low: float = -2.0, high: float = 2.0, *, smooth: bool = True) -> Case:
    """Return the row of a function of one float, element by element."""
    function = getattr(op, name)
    return Case(
        function, getattr(np, name), (f(5, 7, low=low, high=high),), ((lambda: function(TEXT), "'x' is no array"),),
        (f(3, 0),), slack=4, smooth=smooth,
    )  # fmt: skip


def _two(name: str, low: float = -2.0, high: float = 2.0, *, smooth: bool = True) -> Case:
    """Return the row of a function of two floats, broadcast together."""
    function = getattr(op, name)
    return Case(
        function, getattr(np, name), (f(5, 7, low=low, high=high), f(7, low=0.5, high=2.0)),
        ((lambda: function(ELSE, np.ones(4)), "do not broadcast"), (lambda: function(ELSE, TEXT), "'x' is no array")),
        (f(0, 7), f(7)), slack=4, smooth=smooth,
    )  # fmt: skip


def _integers(name: str, high: int = 9) -> Case:
    """Return the row of a function of two integers, broadcast together."""
    function = getattr(op, name)
    return Case(
        function, getattr(np, name), (i(5, 7, high=100), i(7, low=1, high=high)),
        ((lambda: function(WHOLE, np.arange(4)), "do not broadcast"), (lambda: function(ELSE, ELSE), "integers")),
        (i(0, 7), i(7)), smooth=False, short=False,
    )  # fmt: skip


def _bits(name: str) -> Case:
    """Return the row of a function of the bits of one integer."""
    function = getattr(op, name)
    return Case(
        function, getattr(np, name), (i(5, 7, low=-99, high=99),), ((lambda: function(ELSE), "bits of integers"),),
        (i(3, 0),), smooth=False, short=False,
    )  # fmt: skip


UNIVERSAL: Final[dict[str, Case]] = {
    **{name: _one(name) for name in (
        "absolute", "asinh", "atan", "conj", "conjugate", "deg2rad", "fabs", "modf", "negative", "positive", "rad2deg",
    )},
    "rint": _one("rint", smooth=False), "spacing": replace(_one("spacing", smooth=False), short=False),
    **{name: _one(name, -0.9, 0.9) for name in ("acos", "asin", "atanh")},
    "acosh": _one("acosh", 1.1, 9),
    **{name: _two(name) for name in ("add", "atan2", "divide", "multiply", "subtract", "true_divide")},
    **{name: _two(name, 0.5, 2.0) for name in ("float_power", "pow")},
    **{name: _two(name, smooth=False) for name in (
        "divmod", "equal", "greater", "greater_equal", "less", "less_equal", "nextafter", "not_equal",
    )},
    **{name: _integers(name) for name in (
        "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd", "lcm",
        "left_shift", "right_shift",
    )},
    **{name: _bits(name) for name in ("bitwise_count", "bitwise_invert", "bitwise_not", "invert")},
    "frexp": Case(
        lambda x: op.frexp(x)[0], lambda x: np.frexp(x)[0], (f(5, 7),), ((lambda: op.frexp(TEXT), "'x' is no array"),),
        (f(3, 0),),
    ),
    "ldexp": Case(
        op.ldexp, np.ldexp, (f(5, 7), i(7, low=-3, high=4)),
        ((lambda: op.ldexp(ELSE, ELSE), "shifted by integers"), (lambda: op.ldexp(ELSE, np.arange(4)), "broadcast")),
        (f(0, 7), i(7)),
    ),
    "matvec": Case(
        op.matvec, lambda a, x: (a @ x[..., None])[..., 0], (f(5, 7), f(7)),
        ((lambda: op.matvec(np.ones((2, 2)), ELSE), "2 and 3"),), (f(5, 0), f(0)), (f(2, 5, 7), f(2, 7)), slack=4,
    ),
    "vecdot": Case(
        op.vecdot, lambda x, y: (x * y).sum(-1), (f(5, 7), f(7)), ((lambda: op.vecdot(np.ones(2), ELSE), "2 and 3"),),
        (f(5, 0), f(0)), (f(2, 5, 7), f(2, 5, 7)), slack=4,
    ),
    "vecmat": Case(
        op.vecmat, lambda x, a: (x[..., None, :] @ a)[..., 0, :], (f(5), f(5, 7)),
        ((lambda: op.vecmat(ELSE, np.ones((2, 2))), "3 and 2"),), (f(0), f(0, 7)), (f(2, 5), f(2, 5, 7)), slack=4,
    ),
}  # fmt: skip
