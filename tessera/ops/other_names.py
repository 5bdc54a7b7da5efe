"""Operators under the names that other libraries have for them, for messages."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

OTHER_NAMES: Final[Mapping[str, str]] = {
    "amax": "op.max(x, axis)", "amin": "op.min(x, axis)", "bmm": "op.matmul(x, y)", "cat": "op.concat([x, y], axis)",
    "chunk": "op.split(x, parts, axis)", "clamp": "op.clip(x, low, high)", "concatenate": "op.concat([x, y], axis)",
    "detach": "op.stop_gradient(x)", "dot": "op.matmul(x, y)", "fix": "op.trunc(x)",
    "layer_norm": "op.layernorm(x, weight, bias)", "mm": "op.matmul(x, y)", "permute_dims": "op.transpose(x, axes)",
    "ravel": "op.flatten(x)", "rms_norm": "op.rmsnorm(x, weight)",
    "scaled_dot_product_attention": "op.flash_attention(q, k, v)", "swish": "op.silu(x)",
    "take": "op.gather(x, index, axis)", "topk": "op.top_k(x, k, axis)", "unsqueeze": "op.expand_dims(x, axis)",
}  # fmt: skip
"""What to write instead of a function of NumPy, JAX or PyTorch."""


def operator_hint(name: str, operators: Iterable[str]) -> str:
    """Return what may be meant by a name that is no operator: ": write ...", ": did you mean ...?" or nothing."""
    if name in OTHER_NAMES:
        return f": write {OTHER_NAMES[name]}"
    close = difflib.get_close_matches(name, list(operators), n=1, cutoff=0.75)
    return f": did you mean op.{close[0]}?" if close else ""
