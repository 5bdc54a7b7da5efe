"""Calls of every function of `tessera.ops`, with the answer in f64: what agreement tests, the compute-sanitizer and
the tests of compiled code run.

Shapes are small and none a multiple of a block, so every edge is met; between them the calls use every kernel shipped.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from tessera.core.base.reductions import tree_sum
from tessera.ops.attention import prepare_flash_attention, prepare_flash_attention_backward
from tessera.ops.matrix import prepare_gemm
from tessera.ops.recipes.launch_recipe import LaunchRecipe
from tessera.ops.reductions import prepare_reduce
from tessera.ops.rows import prepare_layernorm, prepare_rmsnorm, prepare_softmax
from tessera.ops.transposition import prepare_transpose
from tessera.runtime.interpret.rounding import to_tf32

bf16, f16, f32 = ml_dtypes.bfloat16, np.float16, np.float32
Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Call:
    """One call.

    arguments: makes the arrays it reads; prepare: makes it ready on them; expected: the answer, in f64
    tolerance: allowed error relative to the largest value of each result; 0.0: equal, 16-bit rounding included
    exact: the same bits on every target
    """

    name: str
    arguments: Callable[[], Arrays]
    prepare: Callable[..., LaunchRecipe[Any]]
    expected: Callable[..., Arrays]
    tolerance: float
    exact: bool = False

    def results(self, *arrays: np.ndarray) -> Arrays:
        """Run it on `arrays` and give every result."""
        result: Any = self.prepare(*arrays).run()
        return cast("Arrays", result) if isinstance(result, tuple) else (result,)


def normal(*shape: int, dtype: DTypeLike = f32) -> np.ndarray:
    """Random numbers that depend on the shape alone."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error relative to the largest value; NaN where there is one."""
    return float(np.abs(got.astype(np.float64) - want).max() / np.abs(want).max())


def judge(call: Call, got: Arrays, want: Arrays) -> None:
    """Assert that `got` is the call's answer `want`."""
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        assert np.asarray(a).shape == b.shape, f"{call.name}: result {number} is {np.asarray(a).shape}, not {b.shape}"
        if call.tolerance == 0:
            np.testing.assert_array_equal(np.asarray(a), b.astype(np.asarray(a).dtype))
            continue
        far = error(np.asarray(a), b)
        assert far <= call.tolerance, f"{call.name}: result {number} is off by {far:.2e}"


def activated(x: np.ndarray, activation: str | None) -> np.ndarray:
    """The activation in f64."""
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return x / (1 + np.exp(-x)) if activation == "silu" else x


def product(
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str | None,
) -> Arrays:
    """`gemm` in f64."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    c = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
    return (activated(c if bias is None else c + bias.astype(np.float64), activation),)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool, scale: float | None = None
) -> tuple[np.ndarray, ...]:
    """Attention in f64: result, log-sum-exp, weights, and k and v as every query head sees them."""
    share = q.shape[1] // k.shape[1]
    wide, keys, values = (x.astype(np.float64) for x in (q, np.repeat(k, share, 1), np.repeat(v, share, 1)))
    queries, length = q.shape[2], k.shape[2]
    scores = np.einsum("bhid,bhjd->bhij", wide, keys) * (scale or 1 / math.sqrt(q.shape[3]))
    if causal:
        scores = np.where(np.arange(length) <= np.arange(queries)[:, None] + length - queries, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / total) @ values, (top + np.log(total))[..., 0], weights / total, keys, values


def attention_gradients(
    grad: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool, scale: float | None = None
) -> tuple[np.ndarray, ...]:
    """dq, dk and dv in f64."""
    out, _, weights, keys, values = attention(q, k, v, causal=causal, scale=scale)
    do, factor = grad.astype(np.float64), scale or 1 / math.sqrt(q.shape[3])
    ds = weights * (np.einsum("bhid,bhjd->bhij", do, values) - (do * out).sum(axis=-1, keepdims=True)) * factor
    dk, dv = np.einsum("bhij,bhid->bhjd", ds, q.astype(np.float64)), np.einsum("bhij,bhid->bhjd", weights, do)
    grouped = (k.shape[0], k.shape[1], -1, *k.shape[2:])
    return np.einsum("bhij,bhjd->bhid", ds, keys), dk.reshape(grouped).sum(axis=2), dv.reshape(grouped).sum(axis=2)


def _gemm(
    dtype: type[np.generic], *, m: int = 70, k: int = 100, n: int = 90, transpose_a: bool = False, transpose_b: bool = False,
    activation: str | None = None, bias: bool = False, compute: str | None = None,
) -> Call:  # fmt: skip
    how = {"transpose_a": transpose_a, "transpose_b": transpose_b, "activation": activation}
    marks = [key for key, value in how.items() if value is True] + [
        activation or "",
        "bias" if bias else "",
        compute or "",
    ]
    name = "-".join(["gemm", np.dtype(dtype).name, f"{m}x{n}x{k}", *filter(None, marks)])

    def arguments() -> Arrays:
        a, b = normal(*((k, m) if transpose_a else (m, k)), dtype=dtype), normal(k, n, dtype=dtype)
        b = np.ascontiguousarray(b.T) if transpose_b else b
        return (a, b, normal(n, dtype=dtype)) if bias else (a, b)

    def prepare(a: np.ndarray, b: np.ndarray, added: np.ndarray | None = None) -> LaunchRecipe[Any]:
        return prepare_gemm(a, b, bias=added, dtype="f32", compute=compute, **how)  # type: ignore[arg-type]

    def expected(a: np.ndarray, b: np.ndarray, added: np.ndarray | None = None) -> Arrays:
        a, b = (to_tf32(x) if compute else x for x in (a, b))
        return product(a, b, added, **how)  # type: ignore[arg-type]

    return Call(name, arguments, prepare, expected, 1e-5)


def _attention_call(
    dtype: type[np.generic], *, causal: bool, width: int = 64, shape: tuple[int, int, int, int, int] | None = None
) -> Call:
    """`shape`: batch, heads, heads of keys, queries, keys."""
    small = (1, 2, 1, 70, 150) if dtype is f32 else (2, 4, 2, 150, 195)
    batch, heads, groups, queries, keys = shape or small

    def arguments() -> Arrays:
        return (
            normal(batch, heads, queries, width, dtype=dtype), normal(batch, groups, keys, width, dtype=dtype),
            normal(batch, groups, keys, width + 1, dtype=dtype)[..., :width].copy(),
        )  # fmt: skip

    name = f"attention-{np.dtype(dtype).name}-{'causal' if causal else 'full'}-d{width}"
    name += "" if shape is None else f"-{queries}x{keys}"
    return Call(
        name, arguments, lambda q, k, v: prepare_flash_attention(q, k, v, causal=causal, lse=True),
        lambda q, k, v: attention(q, k, v, causal=causal)[:2], 2e-6 if dtype is f32 else 6e-3,
    )  # fmt: skip


def _attention_backward(
    dtype: type[np.generic], *, causal: bool, width: int = 64, shape: tuple[int, int, int, int, int] | None = None
) -> Call:
    forward = _attention_call(dtype, causal=causal, width=width, shape=shape)

    def arguments() -> Arrays:
        q, k, v = forward.arguments()
        out, lse, *_ = attention(q, k, v, causal=causal)
        return normal(*q.shape, dtype=dtype), q, k, v, out.astype(dtype), lse.astype(f32)

    return Call(
        forward.name.replace("attention", "attention-backward"), arguments,
        lambda *arrays: prepare_flash_attention_backward(*arrays, causal=causal),
        lambda grad, q, k, v, *_: attention_gradients(grad, q, k, v, causal=causal), 4e-6 if dtype is f32 else 2e-2,
    )  # fmt: skip


def _rows(kind: str, dtype: type[np.generic], shape: tuple[int, ...]) -> Call:
    vectors = {"softmax": 0, "rmsnorm": 1, "layernorm": 2}[kind]
    prepare: Any = {"softmax": prepare_softmax, "rmsnorm": prepare_rmsnorm, "layernorm": prepare_layernorm}[kind]

    def arguments() -> Arrays:
        return (normal(*shape, dtype=dtype), *(normal(shape[-1], dtype=dtype) + dtype(i) for i in range(vectors)))

    def expected(x: np.ndarray, *others: np.ndarray) -> Arrays:
        wide, rest = x.astype(np.float64), [v.astype(np.float64) for v in others]
        if kind == "softmax":
            e = np.exp(wide - wide.max(axis=-1, keepdims=True))
            return (e / e.sum(axis=-1, keepdims=True),)
        if kind == "rmsnorm":
            return (wide / np.sqrt((wide * wide).mean(axis=-1, keepdims=True) + 1e-6) * rest[0],)
        centred = wide - wide.mean(axis=-1, keepdims=True)
        return (centred / np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-5) * rest[0] + rest[1],)

    name = f"{kind}-{np.dtype(dtype).name}-{'x'.join(map(str, shape))}"
    return Call(name, arguments, prepare, expected, 2e-6 if dtype is f32 else 5e-3)


def _reduce(kind: str, dtype: type[np.generic], shape: tuple[int, ...], axis: int | None) -> Call:
    def expected(x: np.ndarray) -> Arrays:
        if kind == "sum":
            flat = x.reshape(-1) if axis is None else x
            wide = flat.astype(f32) if flat.dtype.itemsize == 2 else flat
            return (np.atleast_1d(tree_sum(wide, 0 if axis is None else axis)),)
        found = getattr(x.astype(np.float64), kind)(axis=axis)
        return (np.atleast_1d(found),)

    name = f"reduce-{kind}-{np.dtype(dtype).name}-{'x'.join(map(str, shape))}-axis-{axis}"
    return Call(
        name,
        lambda: ((normal(*shape) * 30).astype(dtype),),
        lambda x: prepare_reduce(kind, x, axis),
        expected,
        0.0,
        True,
    )


def _transpose(dtype: type[np.generic], shape: tuple[int, ...]) -> Call:
    def expected(x: np.ndarray) -> Arrays:
        return (np.swapaxes(x, -1, -2),)

    name = f"transpose-{np.dtype(dtype).name}{'-large' if math.prod(shape) > 1 << 20 else ''}"
    return Call(name, lambda: ((normal(*shape) * 30).astype(dtype),), prepare_transpose, expected, 0.0, True)


def _calls() -> Iterator[Call]:
    for dtype in (f32, f16, bf16):
        yield _gemm(dtype)
    for transpose_a in (False, True):
        yield _gemm(bf16, transpose_a=transpose_a, transpose_b=True)
    yield _gemm(bf16, transpose_a=True)
    for activation in ("relu", "gelu", "silu"):
        yield _gemm(f16, activation=activation, bias=True)
    yield _gemm(bf16, m=300, n=270, k=130)
    yield _gemm(f32, compute="tf32")
    for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
        yield _gemm(f32, m=300, n=272, k=132, transpose_a=transpose_a, transpose_b=transpose_b, compute="tf32")
    yield _attention_call(bf16, causal=False)
    for dtype, causal, width in ((f32, True, 64), (bf16, True, 64), (f16, False, 128)):
        yield _attention_call(dtype, causal=causal, width=width)
        yield _attention_backward(dtype, causal=causal, width=width)
    for kind in ("softmax", "rmsnorm", "layernorm"):
        for dtype, shape in ((f32, (7, 100)), (bf16, (3, 2, 1000)), (bf16, (2, 20000))):
            yield _rows(kind, dtype, shape)
    for dtype, shape, axis in (
        (f32, (70000,), None), (bf16, (5, 700), -1), (f32, (3, 500, 20), 1), (np.int32, (2, 9000, 3), 1), (f32, (400, 9000), 1)
    ):  # fmt: skip
        yield _reduce("sum", dtype, shape, axis)
    yield _reduce("max", bf16, (70000,), None)
    yield _reduce("min", f32, (3, 500, 20), 1)
    yield _transpose(f32, (3, 70, 130))
    yield _transpose(bf16, (130, 65))


def _large() -> Iterator[Call]:
    """Enough blocks for every multiprocessor of a GPU, with whole blocks only and with edges of every kind."""
    for m, n, k in ((4096, 4096, 1024), (4095, 4097, 1018), (2056, 4104, 1000)):
        yield _gemm(bf16, m=m, n=n, k=k)
        yield _gemm(f16, m=m, n=n, k=k, activation="silu" if k == 1024 else "relu", bias=True)
        yield _gemm(f32, m=m, n=n, k=k, compute="tf32")
        yield _gemm(f32, m=m, n=n, k=k)
    for transpose_a, transpose_b in ((False, True), (True, False), (True, True)):
        yield _gemm(bf16, m=4096, n=4088, k=1000, transpose_a=transpose_a, transpose_b=transpose_b)
        yield _gemm(f32, m=4096, n=4088, k=1000, transpose_a=transpose_a, transpose_b=transpose_b, compute="tf32")
    for dtype, causal, width in ((bf16, True, 64), (bf16, False, 128), (f16, True, 128)):
        for shape in ((1, 16, 8, 1024, 1024), (1, 16, 16, 1023, 1037)):
            yield _attention_call(dtype, causal=causal, width=width, shape=shape)
            yield _attention_backward(dtype, causal=causal, width=width, shape=shape)
    for kind in ("softmax", "rmsnorm", "layernorm"):
        for dtype, shape in ((f32, (4096, 4096)), (bf16, (4095, 8191)), (bf16, (256, 50257))):
            yield _rows(kind, dtype, shape)
    for dtype, shape, axis in ((f32, (1 << 24,), None), (bf16, (4095, 4097), -1), (f32, (16, 4099, 257), 1)):
        yield _reduce("sum", dtype, shape, axis)
    yield _transpose(f32, (3, 2049, 4097))
    yield _transpose(bf16, (4096, 8200))


CALLS: Final = tuple(_calls())
"""Every call; names are unique."""
LARGE: Final = tuple(_large())
"""Calls that fill a GPU: small ones use neither its copy engine nor persistent blocks as these do."""
