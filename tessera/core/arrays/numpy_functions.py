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
    "absolute": "abs", "amax": "max", "amin": "min", "concatenate": "concat",
    "fix": "trunc", "ravel": "flatten", "take": "gather",
}  # fmt: skip
"""Operators under other names than NumPy's."""
SAME_NAMES: Final = frozenset((
    "abs", "acosh", "all", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_right_shift", "broadcast_to", "cbrt",
    "ceil", "clip", "conj", "conjugate", "copysign", "cos", "cosh", "count_nonzero", "cumprod", "cumsum",
    "deg2rad", "degrees", "divmod", "einsum", "exp", "exp2", "expand_dims", "expm1", "fabs", "flip",
    "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "gcd", "heaviside", "hypot",
    "invert", "isfinite", "isinf", "isnan", "lcm", "ldexp", "log", "log10", "log1p", "log2", "logaddexp",
    "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matvec", "max",
    "maximum", "mean", "min", "minimum", "mod", "modf", "moveaxis", "nan_to_num", "negative", "nextafter",
    "outer", "pad", "positive", "power", "prod", "rad2deg", "radians", "reciprocal", "remainder", "repeat",
    "reshape", "rint", "roll", "round", "sign", "signbit", "sin", "sinh", "sort", "spacing", "split", "sqrt",
    "square", "squeeze", "stack", "std", "sum", "swapaxes", "take_along_axis", "tan", "tanh", "tile",
    "transpose", "tril", "triu", "trunc", "var", "vecdot", "vecmat", "where",
))  # fmt: skip
"""Operators under NumPy's names."""
OTHER_ATTRIBUTES: Final[Mapping[str, str]] = {
    "device": "a graph runs where its arrays are", "strides": "values of a graph have no memory",
    "data": "values of a graph have no memory", "ptr": "values of a graph have no memory",
    "itemsize": "write x.dtype.bytes", "nbytes": "write x.size * x.dtype.bytes", "view": "write op.reshape(x, shape)",
    "repeat": "write op.repeat(x, n, axis)", "split": "write op.split(x, sizes, axis)", "real": "see op.Complex",
    "imag": "see op.Complex", "backward": "write tessera.grad(f)(x)", "float": "write x.astype('f32')",
    "half": "write x.astype('f16')", "double": "write x.astype('f64')", "to": "write x.astype(dtype)",
    "cuda": "give arrays on a GPU", "cpu": "return the value: results are arrays",
    "fill": "write op.full(x.shape, v)", "t": "write x.T", "type": "write x.astype(dtype)",
}  # fmt: skip
"""Attributes of NumPy's arrays and PyTorch's tensors that values of graphs lack, and what to write instead."""


def numpy_remedy(name: str) -> str:
    """Return what to write instead of a function of NumPy."""
    operator = OPERATORS.get(name, name if name in SAME_NAMES else "")
    return f"write op.{operator}" if operator else "compute it from operators of tessera.op, or before the graph"
