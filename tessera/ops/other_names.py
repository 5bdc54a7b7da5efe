"""Operators under the names that other libraries have for them, for messages."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

OTHER_NAMES: Final[Mapping[str, str]] = {
    "absolute": "op.abs(x)", "acos": "op.arccos(x)", "acosh": "op.arccosh(x)", "add": "x + y",
    "amax": "op.max(x, axis)", "amin": "op.min(x, axis)", "asin": "op.arcsin(x)", "asinh": "op.arcsinh(x)",
    "atan": "op.arctan(x)", "atan2": "op.arctan2(y, x)", "atanh": "op.arctanh(x)", "bitwise_and": "x & y",
    "bitwise_invert": "~x", "bitwise_left_shift": "x << y", "bitwise_not": "~x", "bitwise_or": "x | y",
    "bitwise_right_shift": "x >> y", "bitwise_xor": "x ^ y", "bmm": "op.matmul(x, y)",
    "cat": "op.concat([x, y], axis)", "chunk": "op.split(x, parts, axis)", "clamp": "op.clip(x, low, high)",
    "concatenate": "op.concat([x, y], axis)", "deg2rad": "op.radians(x)", "detach": "op.stop_gradient(x)",
    "divide": "x / y", "dot": "op.matmul(x, y)", "equal": "x == y", "fabs": "op.abs(x)", "fix": "op.trunc(x)",
    "float_power": "op.cast(x, 'f64') ** y", "greater": "x > y", "greater_equal": "x >= y", "invert": "~x",
    "layer_norm": "op.layernorm(x, weight, bias)", "left_shift": "x << y", "less": "x < y", "less_equal": "x <= y",
    "mm": "op.matmul(x, y)", "multiply": "x * y", "negative": "-x", "not_equal": "x != y",
    "permute_dims": "op.transpose(x, axes)", "positive": "x", "pow": "x ** y", "rad2deg": "op.degrees(x)",
    "ravel": "op.flatten(x)", "right_shift": "x >> y", "rint": "op.round(x)", "rms_norm": "op.rmsnorm(x, weight)",
    "scaled_dot_product_attention": "op.flash_attention(q, k, v)", "subtract": "x - y", "swish": "op.silu(x)",
    "take": "op.gather(x, index, axis)", "topk": "op.top_k(x, k, axis)", "true_divide": "x / y",
    "unsqueeze": "op.expand_dims(x, axis)",
}  # fmt: skip
"""What to write instead of a function of NumPy, JAX or PyTorch."""


def operator_hint(name: str, operators: Iterable[str]) -> str:
    """Return what may be meant by a name that is no operator: ": write ...", ": did you mean ...?" or nothing."""
    if name in OTHER_NAMES:
        return f": write {OTHER_NAMES[name]}"
    close = difflib.get_close_matches(name, list(operators), n=1, cutoff=0.75)
    return f": did you mean op.{close[0]}?" if close else ""
