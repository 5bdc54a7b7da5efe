"""Operators under the names that other libraries have for them, for messages."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

OTHER_NAMES: Final[Mapping[str, str]] = {
    "absolute": "op.abs(x)", "add": "x + y", "amax": "op.max(x, axis)", "amin": "op.min(x, axis)",
    "bmm": "op.matmul(x, y)", "cat": "op.concat([x, y], axis)", "clamp": "op.clip(x, low, high)",
    "concatenate": "op.concat([x, y], axis)", "detach": "op.stop_gradient(x)", "divide": "x / y",
    "dot": "op.matmul(x, y)", "expand_dims": "x[:, None]",
    "flatten": "op.reshape(x, (-1,))", "flip": "x[::-1]",
    "layer_norm": "op.layernorm(x, weight, bias)",

    "mm": "op.matmul(x, y)", "multiply": "x * y", "negative": "-x",
    "permute_dims": "op.transpose(x, axes)", "pow": "x ** y",
    "rint": "op.round(x)", "rms_norm": "op.rmsnorm(x, weight)",
    "scaled_dot_product_attention": "op.flash_attention(q, k, v)",
    "squeeze": "op.reshape(x, shape)", "std": "op.sqrt(op.var(x, axis))", "subtract": "x - y",
    "swish": "op.silu(x)", "take": "op.gather(x, index, axis)", "unsqueeze": "x[:, None]",
}  # fmt: skip
"""What to write instead of a function of NumPy, JAX or PyTorch."""


def operator_hint(name: str, operators: Iterable[str]) -> str:
    """Return what may be meant by a name that is no operator: ": write ...", ": did you mean ...?" or nothing."""
    if name in OTHER_NAMES:
        return f": write {OTHER_NAMES[name]}"
    close = difflib.get_close_matches(name, list(operators), n=1, cutoff=0.75)
    return f": did you mean op.{close[0]}?" if close else ""
