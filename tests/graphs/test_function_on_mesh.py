"""Functions called with arrays on a mesh: values, placements of results, gradients, closures and mistakes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportArgumentType=false

import numpy as np
import pytest

import tessera
from support.mesh_arrays import Sharded
from tessera import op
from tessera.core.errors.catalog import AmbiguousSharding, NeedsMesh
from tessera.core.placement.mesh import Mesh
from tessera.graphs.executable import Executable
from tessera.graphs.mesh_executable import MeshExecutable

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def block(x, wq, wk, wv, wo):
    heads = [x @ w for w in (wq, wk, wv)]
    q, k, v = (op.reshape(each, (*each.shape[:2], 4, 8)).transpose(0, 2, 1, 3) for each in heads)
    joined = op.reshape(op.flash_attention(q, k, v, causal=True).transpose(0, 2, 1, 3), (*x.shape[:2], 32))
    return x + joined @ wo


def arrays() -> list[np.ndarray]:
    return [normal(4, 12, 16), *(normal(16, 32, seed=n) / 4 for n in (1, 2, 3)), normal(32, 16, seed=4) / 4]


def test_tensor_parallel_attention():
    plain = arrays()
    cut = [("dp", "", ""), ("", "tp"), ("", "tp"), ("", "tp"), ("tp", "")]
    on_mesh = [Sharded.of(each, MESH, *dims) for each, dims in zip(plain, cut, strict=True)]
    attend = tessera.graph.module("attend")(block)
    made = attend(*on_mesh)
    assert isinstance(made, Sharded)
    assert str(made.type) == "f32[4@dp, 12, 16]"
    np.testing.assert_allclose(made.whole, attend(*plain), rtol=1e-4, atol=1e-5)
    kinds = [node.attributes["kind"] for node in attend.executable_for(*on_mesh).graph.nodes if node.op == "collective"]
    assert kinds == ["all_reduce"]


def test_gradients_lie_as_what_they_are_of():
    plain = arrays()
    cut = [("dp", "", ""), ("", "tp"), ("", "tp"), ("", "tp"), ("tp", "")]
    on_mesh = [Sharded.of(each, MESH, *dims) for each, dims in zip(plain, cut, strict=True)]
    slopes = tessera.grad(lambda x, q, k, v, o: op.sum(block(x, q, k, v, o) ** 2), argnums=(1, 4))
    for found, wanted in zip(slopes(*on_mesh), slopes(*plain), strict=True):
        np.testing.assert_allclose(found.whole, wanted, rtol=1e-3, atol=1e-4)
    assert [str(each.type) for each in slopes(*on_mesh)] == ["f32[16, 32@tp]", "f32[32@tp, 16]"]


def test_operators_alone_and_arrays_that_lie_nowhere():
    x, w = normal(8, 16), normal(16, 8)
    made = op.matmul(Sharded.of(x, MESH, "dp", ""), w)
    assert str(made.type) == "f32[8@dp, 8]"
    np.testing.assert_allclose(made.whole, x @ w, rtol=1e-5, atol=1e-5)


def test_what_is_closed_over():
    x = normal(8, 16)
    held = {"w": Sharded.of(normal(16, 8), MESH, "", "tp")}
    apply = tessera.graph.module("apply")(lambda x: op.matmul(x, held["w"]))
    given = Sharded.of(x, MESH, "dp", "")
    assert str(apply(given).type) == "f32[8@dp, 8@tp]"
    held["w"] = Sharded.of(normal(16, 8), MESH, "tp", "")
    made = apply(given)
    assert str(made.type) == "f32[8@dp, 8]"
    np.testing.assert_allclose(made.whole, x @ held["w"].whole, rtol=1e-5, atol=1e-5)


def test_levels_of_the_compiler():
    double = tessera.graph.module("double")(lambda x: op.sum(x, axis=0) * 2.0)
    double(Sharded.of(normal(8, 16), MESH, "dp", "tp"))
    assert [name for name, _ in double.executable.states][:3] == ["capture", "graph-simplify", "graph-partition"]
    assert "tensor<8x16xf32>" in double.inspect_ir("graph")
    assert "collective" in double.inspect_ir("rewritten")
    assert "collective 1 all_reduce over dp: 64 B" in double.inspect_ir("schedule")
    executable = double.executable
    assert isinstance(executable, MeshExecutable)
    assert "all_reduce over dp" in executable.explain()


def test_mistakes():
    other = Mesh.of("dp", range(4))
    x = Sharded.of(normal(8, 8), MESH, "dp", "")
    with pytest.raises(NeedsMesh, match="lies on mesh"):
        op.matmul(x, Sharded.of(normal(8, 8), other, "dp", ""))
    with pytest.raises(NeedsMesh, match="devices of one kind, and the mesh has cpu and sim"):
        op.exp(Sharded.of(normal(8, 8), Mesh.of("dp", ["cpu:0", "sim:0", "cpu:1", "sim:1"]), "dp", ""))
    with pytest.raises(
        AmbiguousSharding, match=r"cost the same: \(f32\[8@dp\], f32\[8\]\).* or \(f32\[8\], f32\[8@dp\]\)"
    ):
        op.matmul(Sharded.of(normal(8, 1), MESH, "dp", ""), Sharded.of(normal(1, 8), MESH, "", "dp"))


def test_equal_functions_are_planned_once():
    x = Sharded.of(normal(8, 16), MESH, "dp", "")

    def make() -> Executable:
        apply = tessera.graph.module("apply")(lambda x: op.exp(x) * 2.0)
        apply(x)
        return apply.executable

    assert make() is make()
    other = tessera.graph.module("apply")(lambda x: op.exp(x) * 2.0)
    other(Sharded.of(normal(8, 16), MESH, "", "tp"))
    assert other.executable is not make()


def test_gradients_of_attention_with_keys_that_are_cut_and_rows_that_see_none():
    mesh = Mesh.of(("x", "y", "z"), range(32), (16, 1, 2))  # 16 devices do not divide the leaves of a sum
    shapes = (2, 64, 16), (1, 32, 16), (1, 32, 5), (2, 64, 32)
    cuts = ("z", "y x", ""), ("", "x", ""), ("", "z x", ""), ("", "z", "y")
    arrays = [normal(*shape, seed=n).astype(np.float16) for n, shape in enumerate(shapes)]

    def loss(q, k, v, bias):
        seen = op.flash_attention(q, k, v, causal=True, bias=bias)
        return op.sum(op.cast(seen / (abs(seen) + 1.5), "f32"))

    slopes = tessera.grad(loss, argnums=(0, 1, 2))
    made = slopes(*(Sharded.of(each, mesh, *cut) for each, cut in zip(arrays, cuts, strict=True)))
    assert slopes.executable.states[-1][0] == "graph-recompute"  # weights are made again, of sums of all keys
    for found, wanted in zip(made, slopes(*arrays), strict=True):
        np.testing.assert_allclose(found.whole.astype("f4"), wanted.astype("f4"), rtol=1e-2, atol=1e-2)
    assert not made[0].whole[:, :32].any()  # the first rows come before all keys
