"""Attention, forward: an operator, three lines, and variants with masks, beside cuDNN and FlexAttention."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownArgumentType=false
# ruff: noqa: E731, PLW0108, PLC0415, ARG005

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch

from graph_measure import Case, normal
from tessera import graph, op

B, H, S, D = 4, 16, 4096, 128
FLOPS: Final = 4.0 * B * H * S * S * D


def attention_cases(compiled: bool) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the rows: names, and what makes them."""
    variants: dict[str, tuple[float, float, Callable[..., Any]]] = {
        "full": (1.0, 1.0, lambda Q, K, V: op.flash_attention(Q, K, V)),
        "softmax(QK^T)V": (1.0, 1.0, lambda Q, K, V: op.matmul(op.softmax(op.matmul(Q, K.T) * D**-0.5), V)),
        "causal": (0.5, 1.05, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True)),
        "causal softcap": (0.5, 2.0, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True, softcap=20.0)),
        "causal ALiBi": (0.5, 1.4, _alibi),
        "window 512": (0.118, 1.4, lambda Q, K, V: op.flash_attention(Q, K, V, causal=True, window=512)),
        "documents": (0.5 * 0.25, 1.4, _documents),
        "causal + entropy": (0.5, 1.4, _entropy),
    }
    for name, (share, goal, ours) in variants.items():
        yield f"attention {name}", partial(_case, name, share, goal, ours, compiled)


def _alibi(Q: Any, K: Any, V: Any) -> Any:
    distance = (op.arange(S)[None, :] - op.arange(S)[:, None]).astype("f32")
    slope = op.exp2((op.arange(H) + 1).astype("f32") * -0.5)
    return op.flash_attention(Q, K, V, causal=True, bias=slope[:, None, None] * distance)


def _documents(Q: Any, K: Any, V: Any) -> Any:
    """Four documents of 1024 positions each, one behind the other."""
    of = op.arange(S) // 1024
    return op.flash_attention(Q, K, V, causal=True, mask=of[:, None] == of[None, :])


def _entropy(Q: Any, K: Any, V: Any) -> Any:
    """Attention, and the entropy of each query's weights beside it."""
    scores = op.matmul(Q, K.T).astype("f32") * D**-0.5
    seen = op.arange(S)[None, :] <= op.arange(S)[:, None]
    scores = op.where(seen, scores, -math.inf)
    top = scores.max(-1, keepdims=True)
    weights = op.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    shifted = op.where(seen, scores - top, 0.0)
    entropy = op.log(total) - (weights * shifted).sum(-1, keepdims=True) / total
    return op.matmul((weights / total).astype(V.dtype), V), entropy


def _case(name: str, share: float, goal: float, ours: Callable[..., Any], compiled: bool) -> Case:
    q, k, v = (normal(B, H, S, D) for _ in range(3))
    # Scores that are written as a product alone are rounded to bf16 unless `widen` is permitted.
    mine = graph.module(name, algebra="real" if name == "causal + entropy" else "bits")(ours)
    first: Callable[[Any], Any] = lambda x: (x[0] if isinstance(x, tuple) else x)[0, 0]
    peers = _cudnn(q, k, v, causal=name == "causal") if name in ("full", "softmax(QK^T)V", "causal") else {}
    if name not in ("full", "softmax(QK^T)V"):
        peers |= _flex(name, q, k, v)
    if compiled:
        peers |= {"naive compiled": _naive(name, q, k, v)}
    return Case(f"attention {name}", FLOPS * share, "TFLOP/s", {"tessera": lambda: mine(q, k, v), **peers},
                lambda: _exact(name, q[0, 0], k[0, 0], v[0, 0]), first, mine, goal)  # fmt: skip


def _scored(name: str, scores: Any) -> Any:
    """Return the scores of a variant, -inf where a query does not see a key, in torch."""
    i, j = torch.arange(S, device="cuda")[:, None], torch.arange(S, device="cuda")[None, :]
    if name == "causal ALiBi":
        slopes = torch.exp2(-torch.arange(1, H + 1, device="cuda") / 2)
        scores = scores + (slopes[:, None, None] if scores.dim() == 4 else slopes[0]).to(scores.dtype) * (j - i)
    if name == "causal softcap":
        scores = 20 * torch.tanh(scores / 20)
    if name in ("full", "softmax(QK^T)V"):
        return scores
    seen = j <= i
    if name == "window 512":
        seen = seen & (i - j < 512)
    if name == "documents":
        seen = seen & (i // 1024 == j // 1024)
    return scores.masked_fill(~seen, -math.inf)


def _exact(name: str, q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(_scored(name, q.double() @ k.double().T / math.sqrt(D)), -1) @ v.double()


def _naive(name: str, q: Any, k: Any, v: Any) -> Callable[[], Any]:
    run = torch.compile(lambda q, k, v: torch.softmax(_scored(name, q @ k.mT / math.sqrt(D)).float(), -1).to(v) @ v)
    return lambda: run(q, k, v)


def _cudnn(q: Any, k: Any, v: Any, causal: bool) -> dict[str, Callable[[], Any]]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return {"cudnn": run}


def _flex(name: str, q: Any, k: Any, v: Any) -> dict[str, Callable[[], Any]]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    seen: dict[str, Callable[..., Any]] = {
        "window 512": lambda b, h, i, j: (i >= j) & (i - j < 512),
        "documents": lambda b, h, i, j: (i >= j) & (i // 1024 == j // 1024),
    }
    slopes = torch.exp2(-torch.arange(1, H + 1, device="cuda") / 2)
    changed: dict[str, Callable[..., Any]] = {
        "causal softcap": lambda score, b, h, i, j: 20.0 * torch.tanh(score / 20.0),
        "causal ALiBi": lambda score, b, h, i, j: score + slopes[h] * (j - i),
    }
    mask = create_block_mask(seen.get(name, lambda b, h, i, j: i >= j), None, None, S, S)
    flex = torch.compile(flex_attention)
    return {"flex": lambda: flex(q, k, v, score_mod=changed.get(name), block_mask=mask)}
