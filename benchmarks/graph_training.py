"""Steps of training: forward and backward of attention, an MLP, a transformer block, and a linear cross entropy."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownArgumentType=false
# ruff: noqa: PLC0415, E501, ARG005

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

import tessera
from graph_attention import FLOPS, B, D, H, S
from graph_layers import with_peers
from graph_measure import Case, flat, normal
from tessera import graph, op

_PART: Final = 64  # rows of each gradient that are compared with f64


def training_cases(compiled: bool) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the rows: names, and what makes them."""
    yield "attention causal, backward too", partial(_attention, compiled)
    yield "attention f32 of projections, backward too", partial(_projected_attention, compiled)
    yield "mlp gelu, backward too", partial(_mlp, compiled)
    yield "block", partial(_block, compiled)
    yield "block, backward too", partial(_block_backward, compiled)
    for algebra, name in (("bits", ""), ("real", ", real")):
        yield f"linear cross entropy, backward too{name}", partial(_cross_entropy, compiled, algebra)


def _gradients(run: Callable[..., Any], *inputs: Any) -> tuple[Any, ...]:
    """Return torch's (result, gradients) of the sum of a result, or of the result where it is one number."""
    given = [x.detach().requires_grad_() for x in inputs]
    made = run(*given)
    return made.detach(), *torch.autograd.grad(made if made.dim() == 0 else made.float().sum(), given)


def _attention(compiled: bool) -> Case:
    q, k, v, weights = (normal(B, H, S, D) for _ in range(4))

    def ours(q: Any, k: Any, v: Any, w: Any) -> Any:
        return op.sum(op.flash_attention(q, k, v, causal=True).astype("f32") * w.astype("f32"))

    mine = tessera.grad(ours, argnums=(0, 1, 2))

    def peer(attend: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            given = [x.detach().requires_grad_() for x in (q, k, v)]
            return torch.autograd.grad(attend(*given), given, weights)

        return run

    def cudnn(q: Any, k: Any, v: Any) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def exact() -> Any:
        given = [x[:1, :1].double().detach().requires_grad_() for x in (q, k, v)]
        scores = (given[0] @ given[1].mT * D**-0.5).masked_fill(
            ~torch.ones(S, S, dtype=torch.bool, device="cuda").tril(), -torch.inf
        )
        made = torch.softmax(scores, -1) @ given[2]
        return flat(*torch.autograd.grad(made, given, weights[:1, :1].double()))

    peers = {"cudnn": peer(cudnn)}
    if compiled:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, S, S)
        flex = torch.compile(flex_attention)
        peers["flex"] = peer(lambda q, k, v: flex(q, k, v, block_mask=mask))
    return Case("attention causal, backward too", FLOPS * 0.5 * 3.5, "TFLOP/s",
                {"tessera": lambda: mine(q, k, v, weights), **peers}, exact,
                lambda gradients: flat(*(x[:1, :1] for x in gradients)), mine, 0.95)  # fmt: skip


def _projected_attention(compiled: bool) -> Case:
    """Return gradients of causal attention in f32 of [batch, row, head * column], as projections make them."""
    del compiled  # FlexAttention has no such blocks of f32
    batch, heads, rows = 1, 8, 4096
    q, k, v = (normal(batch, rows, heads * D).float() for _ in range(3))

    def ours(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (op.reshape(x, (batch, rows, heads, D)).transpose(0, 2, 1, 3) for x in (q, k, v))
        attended = op.flash_attention(q, k, v, causal=True).transpose(0, 2, 1, 3)
        return op.sum(op.reshape(attended, (batch, rows, heads * D)) ** 2)

    def theirs(*given: Any) -> Any:
        inputs = [x.detach().requires_grad_() for x in given]
        parts = (x.reshape(batch, rows, heads, D).transpose(1, 2) for x in inputs)
        attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return torch.autograd.grad((attended**2).sum(), inputs)

    def exact() -> Any:
        return flat(*(x[..., :D] for x in theirs(*(x.double() for x in (q, k, v)))))

    gradients = tessera.grad(ours, argnums=(0, 1, 2))
    return Case("attention f32 of projections, backward too", 3.5 * 2.0 * batch * heads * rows * rows * D, "TFLOP/s",
                {"tessera": lambda: gradients(q, k, v), "eager": lambda: theirs(q, k, v)}, exact,
                lambda slopes: flat(*(x[..., :D] for x in slopes)), gradients, 1.0)  # fmt: skip


def _mlp(compiled: bool) -> Case:
    m, n, k = 4096, 16384, 4096
    x, a, b, y = normal(m, k), normal(k, n, scale=k**-0.5), normal(n, k, scale=n**-0.5), normal(m, k)

    def ours(x: Any, a: Any, b: Any, y: Any) -> Any:
        return op.sum(op.gemm(op.gelu(op.gemm(x, a)), b).astype("f32") * y.astype("f32"))

    mine = tessera.value_and_grad(ours, argnums=(0, 1, 2))

    def theirs() -> Any:
        return _gradients(lambda x, a, b: ((functional.gelu(x @ a) @ b).float() * y.float()).sum(), x, a, b)

    def exact() -> Any:
        _, *gradients = _gradients(
            lambda x, a, b: ((functional.gelu(x @ a) @ b) * y.double()).sum(), *(t.double() for t in (x, a, b))
        )
        return flat(*(g[:_PART] for g in gradients))

    peers = {"eager": theirs}
    if compiled:
        forward = torch.compile(lambda x, a, b, y: ((functional.gelu(x @ a) @ b).float() * y.float()).sum())
        peers["compile"] = lambda: _gradients(lambda x, a, b: forward(x, a, b, y), x, a, b)
    return Case("mlp gelu, backward too", 12.0 * m * n * k, "TFLOP/s", {"tessera": lambda: mine(x, a, b, y), **peers},
                exact, lambda made: flat(*(g[:_PART] for g in (made[1] if len(made) == 2 else made[1:]))), mine, 1.03)  # fmt: skip


_NAMES: Final = ("gain1", "qkv", "out", "gain2", "gate", "up", "down")
_BATCH, _LENGTH, _MODEL, _HEADS, _INNER = 4, 4096, 4096, 32, 11008
_PRODUCTS: Final = (
    2.0 * _BATCH * _LENGTH * (4 * _MODEL * _MODEL + 3 * _MODEL * _INNER) + 2.0 * _BATCH * _LENGTH * _LENGTH * _MODEL
)


def _our_block(x: Any, p: Any) -> Any:
    """A block of Llama's kind: RMSNorm, causal attention of 32 heads, RMSNorm, SwiGLU."""
    q, k, v = op.split_qkv(op.gemm(op.rmsnorm(x, p["gain1"]), p["qkv"]), heads=_HEADS)
    x = x + op.gemm(op.join_heads(op.flash_attention(q, k, v, causal=True)), p["out"])
    y = op.rmsnorm(x, p["gain2"])
    return x + op.gemm(op.silu(op.gemm(y, p["gate"])) * op.gemm(y, p["up"]), p["down"])


def _their_block(x: Any, p: Any) -> Any:
    each = x.shape[0]
    qkv = functional.rms_norm(x, (_MODEL,), p["gain1"], 1e-6) @ p["qkv"]
    q, k, v = qkv.view(each, _LENGTH, 3, _HEADS, _MODEL // _HEADS).permute(2, 0, 3, 1, 4)
    made = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + made.transpose(1, 2).reshape(each, _LENGTH, _MODEL) @ p["out"]
    y = functional.rms_norm(x, (_MODEL,), p["gain2"], 1e-6)
    return x + (functional.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


def _weights() -> dict[str, Any]:
    model, inner = _MODEL, _INNER
    shapes = ((model,), (model, 3 * model), (model, model), (model,), (model, inner), (model, inner), (inner, model))
    return {
        name: normal(*shape, scale=_MODEL**-0.5 if len(shape) > 1 else 1.0)
        for name, shape in zip(_NAMES, shapes, strict=True)
    }


def _block(compiled: bool) -> Case:
    weights, x = _weights(), normal(_BATCH, _LENGTH, _MODEL)

    def exact() -> Any:  # in f32: in f64 it takes seconds of the card
        with torch.no_grad():
            return _their_block(x[:1].float(), {name: p.float() for name, p in weights.items()})[0, :_PART]

    mine = graph.module("block", algebra="real")(_our_block)
    return Case("block", _PRODUCTS, "TFLOP/s",
                with_peers(lambda: mine(x, weights), lambda: _their_block(x, weights), compiled), exact,
                lambda y: y[0, :_PART], mine, 1.05)  # fmt: skip


def _block_backward(compiled: bool) -> Case:
    weights, x, target = _weights(), normal(_BATCH, _LENGTH, _MODEL), normal(_BATCH, _LENGTH, _MODEL)
    learn = tessera.value_and_grad(lambda p, x, y: op.sum(_our_block(x, p).astype("f32") * y.astype("f32")))

    def loss(x: Any, y: Any, *p: Any) -> Any:
        return (_their_block(x, dict(zip(_NAMES, p, strict=True))).float() * y.float()).sum()

    def gradients(run: Callable[..., Any]) -> Any:
        return _gradients(partial(run, x, target), *weights.values())[1:]

    def exact() -> Any:
        wide = [p.float() for p in weights.values()]
        each = [
            _gradients(partial(loss, x[n : n + 1].float(), target[n : n + 1]), *wide)[1:] for n in range(_BATCH)
        ]  # a batch element at a time: f32 does not fit otherwise
        return flat(
            *(torch.stack(parts).sum(0).reshape(parts[0].shape[0], -1)[:_PART] for parts in zip(*each, strict=True))
        )

    def part(made: Any) -> Any:
        found = made[1].values() if isinstance(made[1], dict) else made
        return flat(*(g.reshape(g.shape[0], -1)[:_PART] for g in found))

    peers = {"eager": lambda: gradients(loss)}
    if compiled:
        fast = torch.compile(loss)
        peers["compile"] = lambda: gradients(fast)
    return Case("block, backward too", 3 * _PRODUCTS, "TFLOP/s",
                {"tessera": lambda: learn(weights, x, target), **peers}, exact, part, learn, 1.05, 3e-2)  # fmt: skip


def _cross_entropy(compiled: bool, algebra: str) -> Case:
    n, d, words = 8192, 4096, 32000
    x, w = normal(n, d), normal(words, d, scale=d**-0.5)
    target = torch.randint(0, words, (n,), device="cuda")
    learn = tessera.value_and_grad(lambda x, w, t: op.cross_entropy(op.gemm(x, w.T), t), argnums=(0, 1))
    mine = graph.module("linear_cross_entropy", algebra=algebra)(learn)

    def theirs(x: Any, w: Any) -> Any:
        return functional.cross_entropy((x @ w.T).float(), target)

    def exact() -> Any:
        part = x[:_PART].double().detach().requires_grad_()
        (gradient,) = torch.autograd.grad(
            functional.cross_entropy(part @ w.double().T, target[:_PART], reduction="sum") / n, part
        )
        return gradient

    peers = {"eager": lambda: _gradients(theirs, x, w)}
    if compiled:
        fast = torch.compile(theirs)
        peers["compile"] = lambda: _gradients(fast, x, w)
    name = "linear cross entropy, backward too" + ("" if algebra == "bits" else f", {algebra}")
    return Case(name, 6.0 * n * d * words, "TFLOP/s",
                {"tessera": lambda: mine(x, w, target), **peers}, exact,
                lambda made: (made[1][0] if len(made) == 2 else made[1])[:_PART], mine, 1.0)  # fmt: skip
