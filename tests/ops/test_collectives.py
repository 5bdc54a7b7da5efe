"""The public collectives: bits of kernels on threads and of simulated ranks, axes of meshes, and mistakes."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tessera
from tessera import dist, graph, op
from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    BadMesh,
    BadReduction,
    BadReductionTree,
    CannotTrace,
    RankMismatch,
    ReplicasDiffer,
)
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.ops import collectives


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def leaves(dtype: DType, count: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    x = rng.standard_normal((count, *shape)) * 2.0 ** rng.integers(-12, 12, (count, *shape))
    x[0].flat[:2] = -0.0, np.nan
    return x.astype(dtype.numpy) if dtype.is_float else rng.integers(0, 99, (count, *shape)).astype(dtype.numpy)


def cpus(count: int) -> Mesh:
    return Mesh.of("dp", [f"cpu:{number}" for number in range(count)])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 72])
def test_the_same_bits_for_every_number_of_ranks(ranks: int):
    x = leaves(dtypes.f32, 72, 5, 7)
    dealt = np.split(x, ranks)
    found = op.all_reduce(dealt, mesh=Mesh.of("dp", range(ranks)), leaves=72)
    expected = reduce_leaves(list(x), ReductionTree.binary(72), reduction("sum", dtypes.f32))
    assert len(found) == ranks
    assert all(np.array_equal(bits(each), bits(expected)) for each in found)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16], ids=repr)
def test_kernels_on_threads_give_the_same_bits(ranks: int, dtype: DType):
    x = leaves(dtype, 4, 33, 31)
    found = op.all_reduce(np.split(x, ranks), "mean", mesh=cpus(ranks), leaves=4)
    expected = reduce_leaves(list(x), ReductionTree.binary(4), reduction("mean", dtype))
    assert all(np.array_equal(bits(each), bits(expected)) for each in found)


def test_as_in_the_documents():
    mesh = Mesh.of(("tp", "pp", "dp"), range(72), (4, 9, 2))
    x = list(leaves(dtypes.f32, 72, 3))
    y = op.all_reduce(x, mesh=mesh, algo="binary_tree", deterministic=True)
    assert_array_equal(bits(y[71]), bits(reduce_leaves(x, ReductionTree.binary(72), reduction("sum", dtypes.f32))))
    grads = op.all_reduce(x, op="sum", axis="dp", mesh=mesh)
    for rank in (0, 1, 37, 70):
        pair = [x[rank // 2 * 2], x[rank // 2 * 2 + 1]]
        assert_array_equal(
            bits(grads[rank]), bits(reduce_leaves(pair, ReductionTree.binary(2), reduction("sum", dtypes.f32)))
        )


def test_several_axes_are_one_tree():
    mesh = Mesh.of(("a", "b", "c"), range(12), (3, 2, 2))
    x = list(leaves(dtypes.f32, 12, 9))
    found = op.all_reduce(x, axis=("a", "c"), mesh=mesh)
    group = [x[rank] for rank in (0, 1, 4, 5, 8, 9)]
    assert_array_equal(
        bits(found[9]), bits(reduce_leaves(group, ReductionTree.binary(6), reduction("sum", dtypes.f32)))
    )


@pytest.mark.parametrize("mesh", [Mesh.of(("dp", "tp"), range(6), (3, 2)), None])
def test_movement(mesh: Mesh | None):
    axis = "tp" if mesh is not None else None
    count = 2 if mesh is not None else 6
    x = [np.full((2, 3), rank, np.int32) + np.arange(3, dtype=np.int32) * 10 for rank in range(6)]
    group = range(4, 6) if mesh is not None else range(6)
    whole = np.concatenate([x[rank] for rank in group], axis=1)
    assert_array_equal(op.all_gather(x, axis, mesh=mesh)[5], whole)
    assert_array_equal(op.all_gather(x, axis, dim=0, mesh=mesh)[4], np.concatenate([x[rank] for rank in group]))
    wide = [np.arange(2 * count * 5, dtype=np.int64).reshape(5, 2 * count) * (rank + 1) for rank in range(6)]
    total = sum(wide[rank] for rank in group)
    place = list(group).index(5)
    part = op.reduce_scatter(wide, axis=axis, mesh=mesh)[5]
    assert_array_equal(part, np.asarray(total)[:, 2 * place : 2 * place + 2])
    assert_array_equal(op.broadcast(x, 1, axis, mesh=mesh)[5], x[group[1]])
    around = op.permute(x, [(0, 1)], axis, mesh=mesh)
    assert_array_equal(around[group[1]], x[group[0]])
    assert_array_equal(around[group[0]], np.zeros((2, 3), np.int32))
    sent = op.send_recv(x, 0, 1, axis, mesh=mesh)
    assert_array_equal(sent[group[0]], x[group[0]])
    assert_array_equal(sent[group[1]], x[group[0]])
    pieces = [np.arange(count * 4).reshape(count, 4) + 100 * rank for rank in range(6)]
    swapped = op.all_to_all(pieces, axis, mesh=mesh)
    assert_array_equal(swapped[group[1]], np.stack([pieces[rank][1] for rank in group]))


@pytest.mark.parametrize("layout", [dist.Block(("dp", "tp")), dist.Block((("dp", "tp"),)), dist.Cyclic("tp"), None])
def test_an_array_on_a_mesh_is_gathered(layout: dist.Block | dist.Cyclic | None):
    x = dist.tensor((5, 6), layout, dist.Mesh(("dp", "tp"), range(6), (3, 2)))
    values = np.arange(30, dtype=np.float32).reshape(5, 6)
    x[...] = values
    for axis in ("tp", ("dp", "tp"), None):
        found = op.all_gather(x, axis=axis)
        gone = ("dp", "tp") if axis is None else (axis,) if isinstance(axis, str) else axis
        assert not set(found.placement.axes) & set(gone)
        assert set(found.placement.axes) == set(x.placement.axes) - set(gone)
        assert_array_equal(np.asarray(found), values)
        found[...] = 0
    assert_array_equal(np.asarray(x), values)
    with pytest.raises(BadMesh):
        op.all_gather(x, axis="pp")


def test_strided_values_and_numbers_without_axes():
    x = [np.arange(24, dtype=np.float64).reshape(4, 6)[:, ::2].T * rank for rank in range(3)]
    assert_array_equal(op.all_reduce(x)[0], sum(x))
    assert op.all_reduce([np.float32(1), np.float32(2)], "max", mesh=Mesh.of("dp", range(2)))[1] == 2


def test_levels():
    x = leaves(dtypes.f32, 12, 40)
    backward = op.all_reduce(np.split(x[::-1], 3), mesh=Mesh.of("dp", range(3)), leaves=12, det="exact")
    forward = op.all_reduce(np.split(x, 4), mesh=Mesh.of("dp", range(4)), leaves=12, det="exact")
    assert_array_equal(bits(backward[0]), bits(forward[0]))
    fast = op.all_reduce(list(x), mesh=Mesh.of("dp", range(12)), deterministic=False)
    assert all(np.array_equal(bits(each), bits(fast[0])) for each in fast)
    run = op.all_reduce([list(x[:5]), list(x[5:])], mesh=Mesh.of("dp", range(2)), leaves=12, det="run")
    np.testing.assert_allclose(run[0], x.astype(np.float64).sum(axis=0), rtol=1e-3)


def test_results_are_read_only_where_ranks_share_them():
    found = op.all_reduce([np.ones(3, np.float32)] * 2)
    assert found[0] is found[1]
    with pytest.raises(ValueError, match="read-only"):
        found[0][0] = 7


def test_replicas_are_checked():
    x = [np.arange(6, dtype=np.float32) for _ in range(4)]
    assert len(set(op.check_replicas(x))) == 1
    x[2] = x[2].copy()
    x[2][4] = np.nextafter(x[2][4], 9)
    with pytest.raises(ReplicasDiffer) as mistake:
        op.check_replicas(x)
    assert mistake.value.message == "rank 2 of [0, 1, 2, 3], first at element 4"
    mesh = Mesh.of(("dp", "tp"), range(4), (2, 2))
    assert op.check_replicas(x[:2] * 2, "dp", mesh=mesh)


def test_identifiers():
    one = collectives.tree_id("sum", "f32", 72)
    assert one == reduction("sum", dtypes.f32).tree_id(ReductionTree.binary(72))
    assert one != collectives.tree_id("sum", "f32", 72, algo=(2, 2, 2, 3, 3))


MISTAKES = [
    (RankMismatch, "op.all_reduce([a, a], mesh=three)", "there are 2 values for the 3 ranks of the mesh"),
    (RankMismatch, "op.all_reduce([a, b, a], mesh=three)", "the value of rank 0 is 4, and the value of rank 1 2 x 2"),
    (RankMismatch, "op.all_reduce([a, c, a], mesh=three)", "the value of rank 0 holds f32, and the value of rank 1 i64"),
    (RankMismatch, "op.all_reduce([a, a, a], mesh=three, leaves=9)", "the ranks of a group hold 12 leaves, not 9"),
    (RankMismatch, "op.all_reduce([[], [], []], mesh=three, leaves=0)", "no rank has a leaf"),
    (RankMismatch, "op.reduce_scatter([a, a, a], mesh=three)", "axis -1 has 4 elements, no multiple of 3 ranks"),
    (RankMismatch, "op.all_gather([a, a, a], dim=1, mesh=three)", "values of 1 axes have no axis 1"),
    (RankMismatch, "op.all_gather([b, b[:1], b], dim=1, mesh=three)", "values of 2 shapes cannot be put together along axis 1"),
    (RankMismatch, "op.all_to_all([a, a, a], mesh=three)", "values have 4 pieces along their first axis for 3 ranks"),
    (RankMismatch, "op.broadcast([a, a, a], 3, mesh=three)", "there is no rank 3"),
    (BadMesh, 'op.all_reduce([a, a, a], axis="tp", mesh=three)', "the mesh has no axis 'tp'"),
    (BadReduction, 'op.all_reduce([a, a, a], "avg", mesh=three)', "there is no operator 'avg' over ranks"),
    (BadReductionTree, "op.all_reduce([a, a, a], mesh=three, algo=(2,))", "the radices (2,) have room for 2 leaves, and there are 3"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "call", "said"), MISTAKES, ids=[call for _, call, _ in MISTAKES])
def test_mistakes_point_at_the_call(kind: type[TesseraError], call: str, said: str):
    names = {
        "op": op, "three": Mesh.of("dp", range(3)), "a": np.zeros(4, np.float32), "b": np.zeros((2, 2), np.float32),
        "c": np.zeros(4, np.int64),
    }  # fmt: skip
    with pytest.raises(kind) as mistake:
        eval(call, names)
    assert mistake.value.message == said
    assert mistake.value.hint


def test_the_caret():
    x = [np.zeros(2, np.float32)] * 2
    with pytest.raises(RankMismatch) as mistake:
        op.all_reduce(x[:1], mesh=cpus(2))
    assert "op.all_reduce(x[:1], mesh=cpus(2))" in str(mistake.value)
    assert "^^^^^^^^" in str(mistake.value)


FOUR = dist.Mesh("dp", range(4))


def in_one_branch(x: np.ndarray) -> object:
    return op.cond(op.sum(x) > 0, lambda v: op.all_reduce(v, mesh=FOUR), lambda v: v, x)


@pytest.mark.parametrize("rows", [4, 8])
@pytest.mark.parametrize(
    "captured",
    [
        graph.module("plain")(lambda x: op.all_reduce(x, mesh=FOUR)),
        graph.module("of_a_list")(lambda x: op.all_gather([x, x, x, x], mesh=FOUR)),
        graph.module("in_one_branch")(in_one_branch),
        tessera.jit(in_one_branch),
    ],
    ids=["plain", "list", "one branch", "one branch of a step"],
)
def test_values_of_captured_functions_are_refused(captured: Callable[[np.ndarray], object], rows: int):
    with pytest.raises(CannotTrace, match=r"exchanges values between ranks, and <traced .*> is one value") as mistake:
        captured(np.ones((rows, 3), np.float32))
    assert mistake.value.span is not None
    assert "call it on what the function returns" in str(mistake.value.hint)
