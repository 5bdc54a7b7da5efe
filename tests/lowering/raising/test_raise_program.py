"""Random kernels of affine accesses: what is raised agrees with the interpreter on random arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tessera.core.base.dtypes import DType, bf16, f32
from tessera.core.graph.graph import Tensor
from tessera.graphs.raised import raised
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.interpret.run import run

OFFSETS = st.integers(-2, 2)
UNARY = st.sampled_from(["{}", "tile.tanh({})", "abs({})", "-({})", "({}) * ({})"])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a kernel over rows or lanes, and how many elements its second axis has."""
    terms: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        r, c = draw(OFFSETS), draw(OFFSETS)
        index = draw(st.sampled_from([f"r + {r}, c + {c}", f"c + {c}, r + {r}", f"r, W - 1 - c + {c}"]))
        shape = draw(UNARY)
        terms.append(shape.format(*[f"x[{index}]"] * shape.count("{}")))
    value = " + ".join(terms)
    guard = draw(st.sampled_from(["True", "r > 0", "c < W - 1", "r >= c", "x[r, c] > 0.0"]))
    kind = draw(st.sampled_from(["plain", "sum", "max", "triangle"]))
    step = {"plain": f"s = {value}", "sum": f"for c in range(W):\n            s += {value}",
            "max": f"for c in range(1, W):\n            s = max(s, {value})",
            "triangle": f"for c in range(r):\n            s += {value}"}[kind]  # fmt: skip
    if kind == "plain":
        head = "        r = i // W\n        c = i % W\n"
        store, bound = "y[r, c] = s", "H * W"
    else:
        head, store, bound = "        r = i\n", "y[r, 0] = s", "H"
        guard = "r > 0" if "c" in guard else guard
    return (
        "@kernel\ndef drawn(x: f32[H, W], y: mut f32[H, W]):\n    i = tile.linear_id()\n"
        f"    if i < {bound}:\n{head}        s = 0.0\n        {step}\n        if {guard}:\n            {store}\n"
    ), bound


@settings(max_examples=20, deadline=None)
@given(bodies(), st.integers(0, 5), st.integers(1, 6), st.integers(0, 2**31))
def test_affine_kernels_agree_with_the_interpreter(drawn: tuple[str, str], rows: int, columns: int, seed: int):
    kernel = tessera.compile_source(drawn[0]).drawn
    kind = Tensor(f32, (rows, columns))
    made = raised(kernel, [kind, kind])
    x, y = np.random.default_rng(seed).standard_normal((2, rows, columns)).astype(np.float32)
    (found,) = evaluate(made.graph, [x, y])
    run(made.program, [x, y], symbols=made.launch.symbols)
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)


KERNELS = tessera.compile_source("""
@kernel
def interleaved(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n // 2:
        a = x[2 * i]
        b = x[2 * i + 1]
        y[2 * i] = a - b
        y[2 * i + 1] = a + b

@kernel
def halves(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    h = n // 2
    if i < h:
        y[i] = x[i] - x[i + h]
        y[i + h] = x[i] + x[i + h]

@kernel
def meanpool(x: f32[B, H, W], y: mut f32[B, P, Q]):
    i = tile.linear_id()
    if i < B * P * Q:
        b = i // (P * Q)
        p = i // Q % P
        q = i % Q
        s = 0.0
        for u in range(2):
            for v in range(2):
                s += x[b, 2 * p + u, 2 * q + v]
        y[b, p, q] = s * 0.25

@kernel
def columns(x: f32[M, N], y: mut f32[N]):
    for j in tile.range(N, step=16):
        acc = tile.zeros((16,), f32)
        for i in tile.range(M, step=8):
            acc = acc + tile.sum(x[i:i+8, j:j+16], axis=0)
        y[j:j+16] = acc

@kernel
def causal(x: f32[M, N], y: mut f32[M, N]):
    for i in tile.range(M, step=4):
        s = x[i:i+4, :]
        r = i + tile.arange(4)
        c = tile.arange(N)
        s = tile.where(c[None, :] <= r[:, None], s, -1e30)
        y[i:i+4, :] = tile.softmax(s, axis=1)

@kernel
def short(x: bf16[M, N], y: mut bf16[M]):
    for i in tile.range(M):
        y[i] = tile.sum(x[i, :])
""")


@pytest.mark.parametrize(
    ("name", "shapes", "dtype", "operations"),
    [
        ("interleaved", [(8,), (8,)], f32, None),
        ("interleaved", [(7,), (7,)], f32, None),
        ("halves", [(9,), (9,)], f32, None),
        ("meanpool", [(2, 4, 6), (2, 2, 3)], f32, ["view", "reduce", "map"]),
        ("columns", [(19, 21), (21,)], f32, ["map", "reduce"]),
        ("causal", [(6, 6), (6, 6)], f32, None),
        ("short", [(3, 5), (3,)], bf16, ["map", "reduce", "map"]),
    ],
)
def test_kernels_agree_with_the_interpreter(
    name: str, shapes: list[tuple[int, ...]], dtype: DType, operations: list[str] | None
):
    made = raised(getattr(KERNELS, name), [Tensor(dtype, shape) for shape in shapes])
    x, y = (np.random.default_rng(3).standard_normal(shape).astype(dtype.numpy) for shape in shapes)
    (found,) = evaluate(made.graph, [x, y])
    run(made.program, [x, y], symbols=made.launch.symbols)
    found, wanted = (np.asarray(each).astype(np.float64) for each in (found, y))
    np.testing.assert_allclose(found, wanted, rtol=1e-2 if dtype == bf16 else 1e-5, atol=1e-6)
    assert operations is None or [node.op for node in made.graph.nodes] == operations
