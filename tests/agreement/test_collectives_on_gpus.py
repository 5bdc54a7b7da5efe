"""Collectives of real GPUs: the same bits as the oracle, for every path, type and order; movement; interrupts."""

from collections.abc import Sequence

import numpy as np
import pytest

from support.targets import gpu_count
from tessera import op
from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import LibraryMissing
from tessera.core.placement.fold_reference import reduce_leaves
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.reduction_rules import RankReduction, reduction
from tessera.core.placement.reduction_trees import ReductionTree
from tessera.ops.collectives import fold_by_kernel
from tessera.runtime.dist import collectives, gpus
from tessera.runtime.dist.collectives import Group
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.nccl_library import open_library
from tessera.runtime.memory.owned import DeviceArray, to_device

pytestmark = pytest.mark.gpus
COUNTS = [count for count in (2, 3, 4) if count <= max(2, gpu_count())]
SIZES = (1, 1003, 300_001)
"""Elements: one, an odd number folded by every GPU, and one folded in slices."""


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def leaves(dtype: DType, count: int, elements: int) -> list[np.ndarray]:
    """Arbitrary bits: NaN, infinities, denormals, zeros of either sign."""
    rng = np.random.default_rng(elements)
    x = rng.integers(0, 1 << min(63, dtype.bits), (count, elements), dtype=np.uint64).astype(f"u{dtype.bytes}")
    if dtype.is_float:
        x[:, ::4] = 0
        x[:, ::8] |= np.array(1 << (dtype.bits - 1), x.dtype)
    return list(x.view(dtype.numpy))


def on_gpus(x: Sequence[np.ndarray], ranks: int) -> list[list[DeviceArray]]:
    """The leaves as even shares of GPUs."""
    bounds = [len(x) * rank // ranks for rank in range(ranks + 1)]
    return [[to_device(leaf, rank) for leaf in x[bounds[rank] : bounds[rank + 1]]] for rank in range(ranks)]


def need_nccl() -> None:
    try:
        open_library()
    except LibraryMissing as missing:
        pytest.skip(missing.message)


def reduced(
    engine: GpuEngine, x: Sequence[np.ndarray], ranks: int, what: RankReduction, tree: ReductionTree
) -> list[np.ndarray]:
    given = on_gpus(x, ranks)
    found = collectives.all_reduce(Group(engine, tuple(range(ranks))), given, what, tree, fold_by_kernel)
    return [array.get() for array in found]


@pytest.mark.parametrize("ranks", COUNTS)
@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16, dtypes.f16, dtypes.f64, dtypes.i32], ids=repr)
def test_kernels_that_read_peers_give_the_oracles_bits(dtype: DType, elements: int, ranks: int):
    engine = GpuEngine(range(ranks))
    for count, operator in ((ranks, "sum"), (6, "sum"), (ranks, "max"), (ranks, "mean")):
        if operator == "mean" and not dtype.is_float:
            continue
        x, tree, what = leaves(dtype, count, elements), ReductionTree.binary(count), reduction(operator, dtype)
        expected = bits(reduce_leaves(x, tree, what))
        for found in reduced(engine, x, ranks, what, tree):
            np.testing.assert_array_equal(bits(found), expected)


@pytest.mark.parametrize("ranks", COUNTS)
@pytest.mark.parametrize("path", ["copies", "nccl", "pieces"])
def test_moved_contributions_give_the_oracles_bits(monkeypatch: pytest.MonkeyPatch, path: str, ranks: int):
    need_nccl()
    monkeypatch.setattr(GpuEngine, "reads_peers", property(lambda _: False))
    monkeypatch.setattr(gpus, "PEER_BYTES", 1 << 40 if path == "copies" else 0)
    monkeypatch.setattr(gpus, "PIECE_BYTES", 100_000 if path == "pieces" else 1 << 40)
    engine = GpuEngine(range(ranks))
    for dtype in (dtypes.f32, dtypes.bf16):
        x, tree, what = leaves(dtype, 6, 300_001), ReductionTree.binary(6), reduction("sum", dtype)
        expected = bits(reduce_leaves(x, tree, what))
        for found in reduced(engine, x, ranks, what, tree):
            np.testing.assert_array_equal(bits(found), expected)
    engine.stop()


@pytest.mark.parametrize("det", ["fast", "run", "leaf", "exact"])
def test_every_promise(det: str):
    x = [np.random.default_rng(rank).standard_normal(5001).astype(np.float32) for rank in range(max(COUNTS))]
    given = [to_device(array, rank) for rank, array in enumerate(x)]
    if det == "fast":
        need_nccl()
    found = [array.get() for array in op.all_reduce(given, det=det)]
    exact = np.sum(np.array(x, np.float64), 0)
    np.testing.assert_allclose(found[0], exact, rtol=1e-5, atol=1e-5)
    assert all(np.array_equal(bits(array), bits(found[0])) for array in found)
    if det == "exact":
        np.testing.assert_array_equal(found[0], exact.astype(np.float32))
    if det == "leaf":
        expected = reduce_leaves(x, ReductionTree.binary(len(x)), reduction("sum", dtypes.f32))
        np.testing.assert_array_equal(bits(found[0]), bits(expected))


def test_movement():
    ranks = max(COUNTS)
    x = [np.arange(ranks * 7, dtype=np.float32) + 100 * rank for rank in range(ranks)]
    given = [to_device(array, rank) for rank, array in enumerate(x)]
    mesh = Mesh.of("tp", [f"cuda:{rank}" for rank in range(ranks)])
    for found in op.all_gather(given, mesh=mesh, axis="tp"):
        np.testing.assert_array_equal(found.get(), np.concatenate(x))
    scattered = op.reduce_scatter(given, mesh=mesh, axis="tp")
    total = reduce_leaves(x, ReductionTree.binary(ranks), reduction("sum", dtypes.f32))
    for rank, found in enumerate(scattered):
        np.testing.assert_array_equal(found.get(), total[rank * 7 : rank * 7 + 7])
        assert found.device == rank
    turned = op.all_to_all([each.reshape((ranks, 7)) for each in given], mesh=mesh, axis="tp")
    for rank, found in enumerate(turned):
        np.testing.assert_array_equal(found.get(), [each[rank * 7 : rank * 7 + 7] for each in x])
    for found in op.broadcast(given, mesh=mesh, axis="tp"):
        np.testing.assert_array_equal(found.get(), x[0])


def test_one_after_the_other():
    """What is reduced is written and read again at once: nothing is overtaken."""
    ranks = max(COUNTS)
    engine = GpuEngine(range(ranks))
    group, what, tree = Group(engine, tuple(range(ranks))), reduction("sum", dtypes.f32), ReductionTree.binary(ranks)
    given = [[to_device(np.ones(3_000_001, np.float32), rank)] for rank in range(ranks)]
    for _ in range(6):
        found = collectives.all_reduce(group, given, what, tree, fold_by_kernel)
        given = [[array] for array in found]
    for mine in given:
        np.testing.assert_array_equal(mine[0].get(), np.full(3_000_001, ranks**6, np.float32))
