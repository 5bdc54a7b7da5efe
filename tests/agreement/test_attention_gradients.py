"""Derived gradients of attention: four kernels, no array of all scores, and the values of the formulas in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from support.targets import RUNNABLE
from tessera import op
from tessera.core.schedule.plan import CASCADE, Plan
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.session.session import resolve_target

Array = Any
Attend = Callable[..., Array]
QUERIES, KEYS = 150, 150
DOCUMENTS = np.sort(np.random.default_rng(1).integers(0, 4, KEYS)).astype(np.int32)
SAME = DOCUMENTS[:, None] == DOCUMENTS[None, :]
BIAS = np.random.default_rng(2).standard_normal((2, QUERIES, KEYS)).astype(np.float32)
I, J = np.arange(QUERIES)[:, None], np.arange(KEYS)[None, :]
SLOPES = 2.0 ** -(np.arange(2) + 1.0)


@dataclass(frozen=True)
class Scores:
    """What the oracle does to scaled scores: a soft cap, a bias, and what is seen."""

    cap: float = 0.0
    bias: np.ndarray | float = 0.0
    seen: np.ndarray | bool = True
    scale: float | None = None


def oracle(q: Array, k: Array, v: Array, do: Array, how: Scores) -> tuple[Array, ...]:
    """Return attention and its gradients, in f64."""
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    share = q.shape[-3] // k.shape[-3]
    keys, values = (np.repeat(x, share, -3) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if how.scale is None else how.scale
    scores, slope = q @ keys.swapaxes(-1, -2) * scale, 1.0
    if how.cap:
        capped = np.tanh(scores / how.cap)
        scores, slope = how.cap * capped, 1 - capped**2
    scores = np.where(how.seen, scores + how.bias, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    out = weights @ values
    ds = weights * (do @ values.swapaxes(-1, -2) - (do * out).sum(-1, keepdims=True)) * slope * scale

    def shared(x: Array) -> Array:
        return x.reshape(*k.shape[:-2], share, *x.shape[-2:]).sum(-3)

    return out, ds @ keys, shared(ds.swapaxes(-1, -2) @ q), shared(weights.swapaxes(-1, -2) @ do)


def flash(**how: Array) -> Attend:
    return lambda q, k, v: op.flash_attention(q, k, v, **how)


def alibi(q: Array, k: Array, v: Array) -> Array:
    distance = (op.arange(KEYS)[None, :] - op.arange(QUERIES)[:, None]).astype("f32")
    slope = op.exp2((op.arange(2) + 1).astype("f32") * -1.0)
    return op.flash_attention(q, k, v, causal=True, bias=slope[:, None, None] * distance)


def naive(q: Array, k: Array, v: Array) -> Array:
    return op.matmul(op.softmax(op.matmul(q, k.T) * 0.2), v)


def without_maximum(q: Array, k: Array, v: Array) -> Array:
    weights = op.exp(op.matmul(q, k.T) * 0.2)
    return op.matmul(weights, v) / weights.sum(-1, keepdims=True)


VARIANTS: dict[str, tuple[Attend, Scores]] = {
    "full": (flash(), Scores()),
    "causal": (flash(causal=True), Scores(seen=J <= I)),
    "soft cap": (flash(causal=True, softcap=3.0), Scores(cap=3.0, seen=J <= I)),
    "ALiBi": (alibi, Scores(bias=SLOPES[:, None, None] * (J - I), seen=J <= I)),
    "bias": (flash(bias=BIAS), Scores(bias=BIAS)),
    "window": (flash(causal=True, window=30), Scores(seen=(J <= I) & (J > I - 30))),
    "window on both sides": (flash(window=30), Scores(seen=abs(I - J) < 30)),
    "mask": (flash(mask=DOCUMENTS[:, None] <= DOCUMENTS[None, :]), Scores(seen=DOCUMENTS[:, None] <= DOCUMENTS[None])),
    "documents": (flash(causal=True, mask=SAME), Scores(seen=SAME & (J <= I))),
    "softmax": (naive, Scores(scale=0.2)),
    "no maximum, divided last": (without_maximum, Scores(scale=0.2)),
}


Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def drawn(dtype: type, queries: tuple[int, ...], keys: tuple[int, ...], wide: int = 0) -> Drawn:
    """Return random q, k, v and the gradient of the result; wide: the width of values, if it is another."""
    random = np.random.default_rng(0)
    values, out = ((*shape[:-1], wide or shape[-1]) for shape in (keys, queries))
    q, k, v, do = (random.standard_normal(shape).astype(dtype) for shape in (queries, keys, values, out))
    return q, k, v, do


def pulled(attend: Attend) -> GraphFunction[[Array, Array, Array, Array], Array]:
    """Return a function of q, k, v and the result's gradient that gives the result and the three gradients."""

    def run(q: Array, k: Array, v: Array, do: Array) -> Array:
        out, pull = tessera.vjp(attend, q, k, v)
        return (out, *pull(do))

    return tessera.graph.module("pulled")(run)


def assert_blocks_only(plan: Plan, queries: int, keys: int) -> None:
    """Assert that no array in memory has an axis of queries and one of keys."""
    for group in plan.groups:
        for value in group.outputs:
            extents = list(value.type.shape)
            both = extents.count(queries) > 1 if queries == keys else queries in extents and keys in extents
            assert not both, f"kernel {group.ident} writes {value.type}"


def checked(attend: Attend, arrays: Drawn, how: Scores, tolerance: float) -> Plan:
    """Compare on every target that runs here; return the plan."""
    function = pulled(attend)
    wanted = oracle(*arrays, how)
    for target in RUNNABLE:
        with overridden(target=target):
            made = function(*arrays)
        for found, each in zip(made, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found, np.float64), each, atol=tolerance * abs(each).max())
    plan = function.executable_for(*arrays).plan
    assert_blocks_only(plan, arrays[0].shape[-2], arrays[1].shape[-2])
    return plan


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_odd_length(name: str):
    attend, how = VARIANTS[name]
    shape = (1, 2, QUERIES, 24)
    plan = checked(attend, drawn(np.float32, shape, shape), how, 5e-6)
    assert [group.kind for group in plan.groups].count(CASCADE) == 3
    assert len(plan.groups) == 4  # the forward pass, sums of rows, gradients of keys and values, gradients of queries


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-14), (np.float16, 3e-3), (ml_dtypes.bfloat16, 2e-2)]
)  # fmt: skip
@pytest.mark.parametrize(
    ("queries", "keys", "wide"),
    [((1, 8, 70, 16), (1, 2, 90, 16), 0), ((2, 3, 65, 24), (2, 3, 65, 24), 40), ((1, 4, 33, 16), (1, 1, 33, 16), 0)],
)
def test_types_shared_heads_and_widths(
    dtype: type, tolerance: float, queries: tuple[int, ...], keys: tuple[int, ...], wide: int
):
    """Heads that share keys, more keys than queries, values of another width."""
    seen = np.arange(keys[-2]) <= np.arange(queries[-2])[:, None] + keys[-2] - queries[-2]
    arrays = drawn(dtype, queries, keys, wide)
    plan = checked(flash(causal=True), arrays, Scores(seen=seen), tolerance)
    assert [group.kind for group in plan.groups].count(CASCADE) == 3


def test_rows_that_see_nothing():
    """Weights of a row without a visible key are 0, and so is what it adds to gradients."""
    seen = np.ones((40, 40), bool)
    seen[[0, 7, 39]] = False
    arrays = drawn(np.float32, (2, 40, 16), (2, 40, 16))
    checked(flash(mask=seen), arrays, Scores(seen=seen), 5e-6)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_one_gradient_alone(wanted: int):
    arrays = q, k, v, do = drawn(np.float32, (2, 90, 16), (2, 90, 16))
    slope = tessera.grad(lambda q, k, v, do: op.sum(op.flash_attention(q, k, v, causal=True) * do), argnums=wanted)
    each = oracle(*arrays, Scores(seen=np.tri(90, dtype=bool)))[1 + wanted]
    np.testing.assert_allclose(slope(q, k, v, do), each, atol=5e-6 * abs(each).max())
    assert_blocks_only(slope.executable_for(*arrays).plan, 90, 90)


def test_one_array_is_queries_keys_and_values():
    x, _, _, do = drawn(np.float32, (3, 60, 16), (3, 60, 16))
    slope = tessera.grad(lambda x, do: op.sum(op.flash_attention(x, x, x, causal=True) * do))
    _, dq, dk, dv = oracle(x, x, x, do, Scores(seen=np.tri(60, dtype=bool)))
    each = dq + dk + dv
    np.testing.assert_allclose(slope(x, do), each, atol=5e-6 * abs(each).max())


def test_gradient_of_a_bias():
    """It has all queries and all keys itself, so that what it is made of may, too."""
    q, k, v, do = drawn(np.float32, (1, 2, 50, 16), (1, 2, 50, 16))
    bias, seen = BIAS[:, :50, :50], np.tri(50, dtype=bool)
    slope = tessera.grad(lambda b: op.sum(op.flash_attention(q, k, v, causal=True, bias=b) * do))(bias)
    there = np.random.default_rng(3).standard_normal(bias.shape)

    def loss(step: float) -> float:
        return float((oracle(q, k, v, do, Scores(bias=bias + step * there, seen=seen))[0] * do).sum())

    np.testing.assert_allclose((slope * there).sum(), (loss(1e-4) - loss(-1e-4)) / 2e-4, rtol=1e-3)


def test_second_derivatives():
    q, k, v, do = (x[:1, :1] for x in drawn(np.float64, (1, 1, 40, 8), (1, 1, 40, 8)))
    seen = Scores(seen=np.tri(40, dtype=bool))
    made = tessera.hvp(lambda q: op.sum(op.flash_attention(q, k, v, causal=True) * do), (q,), (do,))
    found = made[0] if isinstance(made, tuple) else made
    slopes = [oracle(q + step * do, k, v, do, seen)[1] for step in (1e-4, -1e-4)]
    np.testing.assert_allclose(found, (slopes[0] - slopes[1]) / 2e-4, atol=1e-6)


def test_a_block_of_a_transformer():
    """Queries, keys and values are strided views of one array, and results are joined; no s x s array either."""
    width, heads, length = 64, 4, 96

    def block(p: dict[str, Array], x: Array) -> Array:
        q, k, v = op.split_qkv(op.gemm(op.rmsnorm(x), p["qkv"]), heads=heads)
        return x + op.gemm(op.join_heads(op.flash_attention(q, k, v, causal=True)), p["out"])

    random = np.random.default_rng(0)
    p = {"qkv": random.standard_normal((width, 3 * width)) / 8, "out": random.standard_normal((width, width)) / 8}
    x, do = random.standard_normal((2, length, width)), random.standard_normal((2, length, width))
    slopes = tessera.grad(lambda p, x: op.sum(block(p, x) * do))
    found = slopes(p, x)
    plan = slopes.executable_for(p, x).plan
    assert [group.kind for group in plan.groups].count(CASCADE) == 3
    assert_blocks_only(plan, length, length)
    there = {name: random.standard_normal(each.shape) for name, each in p.items()}
    ends = [
        float((np.asarray(block({n: p[n] + step * there[n] for n in p}, x)) * do).sum()) for step in (1e-5, -1e-5)
    ]  # fmt: skip
    along = sum((np.asarray(found[name]) * there[name]).sum() for name in p)
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cuda:sm_80"])
@pytest.mark.parametrize(("length", "width", "shared"), [(512, 128, 1), (1000, 64, 2)])
def test_compiled_for_gpus(length: int, width: int, shared: int, target: str):
    """Every product is one of tensor cores, and on sm_90 no lane spills."""
    q, k, v, do = drawn(ml_dtypes.bfloat16, (1, 2, length, width), (1, 2 // shared, length, width))
    for kernel in pulled(flash(causal=True)).executable_for(q, k, v, do).kernels(resolve_target(target)):
        assert kernel.compiled is not None
        used = kernel.compiled.artifact.resources
        if target == "cuda:sm_90a":
            assert used.spill_bytes == 0
            if kernel.group.kind == CASCADE:
                assert "HGMMA" in str(kernel.compiled.resources())
        elif kernel.group.kind == CASCADE:
            assert "HMMA" in str(kernel.compiled.resources())
