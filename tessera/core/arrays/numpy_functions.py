"""NumPy's functions of values: those that Python has an operator for, and what to write instead of the others."""

from collections.abc import Mapping
from typing import Final

ARITHMETIC: Final[Mapping[str, str]] = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "left_shift": "shl", "right_shift": "shr",
}  # fmt: skip
"""Opcodes of NumPy's universal functions of two operands, by their names."""
COMPARISONS: Final[Mapping[str, str]] = {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
MIRRORED: Final[Mapping[str, str]] = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
"""Predicates with their operands the other way around."""
OPERATORS: Final[Mapping[str, str]] = {
    "absolute": "abs", "amax": "max", "amin": "min", "concatenate": "concat", "deg2rad": "radians", "fabs": "abs",
    "fix": "trunc", "rad2deg": "degrees", "ravel": "flatten", "rint": "round", "take": "gather",
}  # fmt: skip
"""Operators under other names than NumPy's."""
SAME_NAMES: Final = frozenset((
    "abs", "all", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax",
    "argmin", "argsort", "broadcast_to", "cbrt", "ceil", "clip", "copysign", "cos", "cosh", "count_nonzero",
    "cumprod", "cumsum", "degrees", "einsum", "exp", "exp2", "expand_dims", "expm1", "flip", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "heaviside", "hypot", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis", "nan_to_num", "outer", "pad",
    "power", "prod", "radians", "reciprocal", "remainder", "repeat", "reshape", "roll", "round", "sign",
    "signbit", "sin", "sinh", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "sum", "swapaxes",
    "take_along_axis", "tan", "tanh", "tile", "transpose", "tril", "triu", "trunc", "var", "where",
))  # fmt: skip
"""Operators under NumPy's names."""


def numpy_remedy(name: str) -> str:
    """Return what to write instead of a function of NumPy."""
    operator = OPERATORS.get(name, name if name in SAME_NAMES else "")
    return f"write op.{operator}" if operator else "compute it from operators of tessera.op, or before the graph"
