"""The documents' distributed code, letter for letter, in cells and in plain Python, against NumPy.

Devices that are not there are simulated, and what is printed when a mesh is made says so.
"""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportUnknownMemberType=false

import re
import runpy
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

import tessera
from support.documents import DISTRIBUTED
from support.operators import Array
from tessera import dist, op
from tessera.api.source_module import run_cell
from tessera.core.settings import overridden

Run: TypeAlias = Callable[..., Any]  # what a block defines is of any type


@pytest.fixture(params=["interpret", "cpu"], autouse=True)
def target(request: pytest.FixtureRequest) -> Generator[str]:
    """Run each test on both targets."""
    with overridden(target=request.param):
        yield request.param


@pytest.fixture(params=["cell", "python"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a block with the names that the document has defined before it, and return what there is behind it."""

    def in_a_cell(text: str, **given: object) -> SimpleNamespace:
        run_cell(text, given, name="<block>")
        return SimpleNamespace(**given)

    def in_a_module(text: str, **given: object) -> SimpleNamespace:
        path = tmp_path / "block.py"
        plain = re.sub(r"\bmut (\w+\[[^]]*\])", r"mut[\1]", text)  # which Python cannot read
        path.write_text(f"from __future__ import annotations\n\n{plain}")
        return SimpleNamespace(**runpy.run_path(str(path), {**PLAIN, **given}))

    return in_a_cell if request.param == "cell" else in_a_module


PLAIN: dict[str, object] = {
    **{name: getattr(tessera, name) for name in ("jit", "kernel", "autodiff", "Region", "read", "write", "reduce_sum")},
    **{name: getattr(op, name) for name in ("gemm", "rmsnorm_safe", "split_qkv", "flash_attention", "all_gather")},
}
"""What a plain module imports, and a cell has."""


def drawn(*shape: int, seed: int = 0, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def put(values: NDArray[Any], mesh: dist.Mesh, *axes: str | None) -> dist.Tensor:
    x = dist.tensor(values.shape, dist.Block(axes), mesh, values.dtype)
    x[...] = values
    return x


@pytest.fixture
def mesh() -> dist.Mesh:
    return dist.mesh(axes=("dp", "tp"), devices=range(8), shape=(2, 4))


@pytest.mark.parametrize(("name", "shape"), [("mesh", (4, 9, 2)), ("mesh_72", (6, 4, 3))])
def test_meshes_say_what_is_simulated(run: Run, name: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]):
    made = run(DISTRIBUTED[name]).mesh
    assert (made.size(), made.shape) == (72, shape)
    assert "72 devices, all simulated" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sharded", "sharded_large"])
def test_tensors_are_planned_without_memory(run: Run, name: str):
    made = run(DISTRIBUTED["mesh_72"]).mesh
    w = run(DISTRIBUTED[name], dist=dist, mesh=made).W
    assert str(w.type) == {"sharded": "bf16[8192, 8192@tp]", "sharded_large": "bf16[1000000@tp, 1000000@pp]"}[name]
    assert not w.stored
    plan = w.plan(dist.Replicated())
    assert [step.kind for step in plan.steps] == ["all_gather"] * len(plan.steps)
    assert not w.reshard(dist.Replicated()).stored


def test_all_reduce(run: Run):
    x = [drawn(5, 3, seed=n) for n in range(8)]
    found = run(DISTRIBUTED["all_reduce"], X=x)
    tree = x
    while len(tree) > 1:
        tree = [a + b for a, b in zip(tree[::2], tree[1::2], strict=True)]
    assert len(found.Y) == 8
    for each in found.Y:
        np.testing.assert_array_equal(each, tree[0])


def test_all_reduce_of_partial_sums(run: Run):
    """The same block, given an array that lies on the mesh as contributions."""
    placed = dist.Mesh(axes=["dp"], devices=range(8))
    x = drawn(16, 8)
    found = run(DISTRIBUTED["all_reduce"], X=put(x, placed, "dp")).Y
    np.testing.assert_array_equal(np.asarray(found), x.reshape(4, 2, 2, 8).sum(1).reshape(2, 2, 2, 8).sum(1).sum(0))


def test_gradient_aggregation(run: Run, mesh: dist.Mesh):
    local = [drawn(6, seed=n) for n in range(8)]
    with mesh:
        grads = run(DISTRIBUTED["all_reduce_grads"], local_grads=local).grads
    for rank, each in enumerate(grads):
        np.testing.assert_array_equal(each, local[rank % 4] + local[rank % 4 + 4])


def test_domains(run: Run, mesh: dist.Mesh):
    with mesh:
        found = run(DISTRIBUTED["domain"], tessera=tessera, B=4, S=8, Dm=16)
        x = drawn(4, 8, 16).astype(found.X.dtype)
        found.X[...] = x
        y = tessera.array.from_domain(found.D, dtype="bf16", distribution=found.dist)
    found.norm_layer(found.X, y)
    want = np.empty_like(x)
    found.norm_layer(x, want)
    np.testing.assert_array_equal(np.asarray(y), want)


def test_step(run: Run, mesh: dist.Mesh):
    step = run(DISTRIBUTED["step"]).step
    w, x, y = drawn(5, 3), drawn(8, 5, seed=1), drawn(8, 3, seed=2)
    out = put(y, mesh, "dp")
    for _ in range(2):
        step(put(w, mesh), put(x, mesh, "dp"), out)
    np.testing.assert_allclose(np.asarray(out), y + 2 * (x.astype(np.float64) @ w), atol=1e-5)


def test_a_captured_training_step(run: Run, mesh: dist.Mesh):
    w, wanted, x = drawn(16, 8), drawn(8, 8, seed=1), drawn(8, 16, seed=2)
    weights, batch, losses = put(w, mesh, None, "tp"), put(x, mesh, "dp"), list[object]()
    calls: list[int] = []

    def model(batch: object) -> object:
        calls.append(1)
        return op.matmul(batch, weights)

    step = run(DISTRIBUTED["train_step"], model=model, loss_fn=lambda out: op.mse(out, wanted)).train_step
    for scale in (1, 3, -2):
        batch[...] = x * scale
        loss = step(batch)
        losses.append(loss)
        np.testing.assert_allclose(
            np.asarray(loss), ((x.astype(np.float64) * scale @ w - wanted) ** 2).mean(), rtol=1e-5
        )
    assert losses[0] is losses[2]
    assert len(calls) == 1
    assert len(step.graphs) == 1


def test_a_tensor_parallel_product(run: Run, mesh: dist.Mesh):
    x, w = drawn(8, 16), drawn(16, 12, seed=1)
    for cut in ((), ("dp",)):
        found = run(DISTRIBUTED["tp_gemm_fragment"], x=put(x, mesh, *cut), W_shard=put(w, mesh, None, "tp"))
        assert str(found.y_local.type) == f"f32[8{'@dp' if cut else ''}, 12@tp]"
        assert str(found.y.type) == f"f32[8{'@dp' if cut else ''}, 12]"
        np.testing.assert_allclose(np.asarray(found.y), x.astype(np.float64) @ w, atol=1e-5)
        np.testing.assert_array_equal(np.asarray(found.y), np.asarray(found.y_local))


def test_gradients_through_tensor_parallel_products(run: Run, mesh: dist.Mesh):
    x, w, v, wanted = drawn(8, 16), drawn(16, 12, seed=1), drawn(12, 16, seed=2), drawn(8, 16, seed=3)
    second = put(v, mesh, "tp")

    def model(x: Array, w: Array) -> Array:
        return op.matmul(op.tanh(x @ w), second)

    first = put(w, mesh, None, "tp")
    found = run(
        DISTRIBUTED["grad"], tessera=tessera, model=model, mse=op.mse, x=put(x, mesh, "dp"), W=first, y_true=wanted
    )  # fmt: skip
    h = np.tanh(x.astype(np.float64) @ w)
    slope = 2 * (h @ v - wanted) / wanted.size
    assert found.gW.type == first.type
    np.testing.assert_allclose(np.asarray(found.gW), x.T @ (slope @ v.T * (1 - h * h)), atol=1e-5)


def test_the_transformer_block_under_a_mesh(run: Run, mesh: dist.Mesh):
    block = run(DISTRIBUTED["block"]).block
    x, wqkv, wo = (
        drawn(12, 64, dtype=np.float64),
        drawn(64, 192, seed=1, dtype=np.float64) / 8,
        drawn(64, 64, seed=2, dtype=np.float64),
    )
    given = put(x, mesh, "dp"), put(wqkv, mesh, None, "tp"), put(wo, mesh, "tp")
    out = block(*given)
    np.testing.assert_allclose(np.asarray(out), block(x, wqkv, wo), atol=1e-12)
    seed = drawn(12, 64, seed=3, dtype=np.float64)
    _, pullback = block.vjp(*given)
    _, whole = block.vjp(x, wqkv, wo)
    for mine, theirs, argument in zip(pullback(put(seed, mesh, "dp")), whole(seed), given, strict=True):
        assert mine.type == argument.type, "gradients lie as what they are the gradients of"
        np.testing.assert_allclose(np.asarray(mine), theirs, atol=1e-11)


def products(text: str) -> str:
    """Return the block with the body that the document leaves out."""
    return text.replace("): ...", "):\n    C[:] = A @ B")


def test_index_launches(run: Run):
    made = dist.mesh(axes=("dp", "tp", "pp"), devices=range(72), shape=(4, 9, 2))
    a, b = drawn(20, 36, dtype=np.float16), drawn(36, 18, seed=1, dtype=np.float16)
    c = dist.tensor((20, 18), dist.Block((None, "tp")), made, "f32", "C")
    run(products(DISTRIBUTED["tp_gemm"]), tessera=tessera, A=put(a, made, None, "tp"), B=put(b, made, "tp"), C=c)
    np.testing.assert_allclose(np.asarray(c), a.astype(np.float64) @ b, atol=1e-3)


def test_index_launches_in_a_captured_graph(run: Run, mesh: dist.Mesh):
    gemm = run(products(DISTRIBUTED["tp_gemm"]).split("\n\n")[0]).tp_gemm
    a, b = drawn(8, 16, dtype=np.float16), drawn(16, 12, seed=1, dtype=np.float16)
    A, B = put(a, mesh, None, "tp"), put(b, mesh, "tp")
    C = dist.tensor((8, 12), dist.Block((None, "tp")), mesh, "f32", "C")

    @tessera.jit(capture_graph=True)
    def step(A: dist.Tensor, B: dist.Tensor, C: dist.Tensor) -> tuple[object, object]:
        report = tessera.index_launch(axis="tp")(gemm)(A.parts("tp"), B.parts("tp"), C.parts("tp"))
        return report, op.sum(C * 2.0)

    for scale in (1, 2, 3):
        A[...] = a * np.float16(scale)
        report, total = step(A, B, C)
        want = scale * (a.astype(np.float64) @ b)
        np.testing.assert_allclose(np.asarray(C), want, atol=1e-2)
        np.testing.assert_allclose(np.asarray(total), 2 * want.sum(), rtol=1e-3)
        assert "reduce_scatter over tp" in repr(report)
        assert "on simulated devices" in repr(report)
