"""Collectives on simulated ranks and on threads: the oracle's bits for every number of ranks, and pure movement."""

from collections.abc import Iterator

import numpy as np
import pytest

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import BadReductionTree, RankMismatch
from tessera.core.placement.fold_plans import even_shares
from tessera.core.placement.fold_reference import at_root, fold_partial, reduce_leaves
from tessera.core.placement.reduction_rules import reduction
from tessera.core.placement.reduction_trees import ReductionTree, left_fold
from tessera.runtime.dist.collectives import (
    Group,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    permute,
    reduce_scatter,
)
from tessera.runtime.dist.engine import RankEngine
from tessera.runtime.dist.simulated import SimulatedEngine
from tessera.runtime.dist.threaded import ThreadedEngine

RANKS = [1, 2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 72]


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def leaves(dtype: DType, count: int, elements: int) -> list[np.ndarray]:
    rng = np.random.default_rng(elements)
    x = rng.integers(0, 1 << dtype.bits, (count, elements), dtype=f"u{dtype.bytes}").view(dtype.numpy)
    if dtype.is_float:
        half = elements // 2
        x[:, :half] = (rng.standard_normal((count, half)) * 2.0 ** rng.integers(-9, 9, (count, half))).astype(x.dtype)
        x[0, 1] = np.array(-0.0).astype(x.dtype)
    return list(x)


def dealt(x: list[np.ndarray], ranks: int) -> list[list[np.ndarray]]:
    return [x[first:stop] for first, stop in even_shares(len(x), ranks)]


@pytest.fixture(params=["sim", "threads"])
def engine(request: pytest.FixtureRequest) -> Iterator[RankEngine]:
    made: RankEngine = SimulatedEngine(4) if request.param == "sim" else ThreadedEngine(4)
    yield made
    made.stop()


@pytest.mark.parametrize("radices", [None, (2, 2, 2, 3, 3), "chain"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16, dtypes.f64, dtypes.fp8_e5m2, dtypes.i16], ids=repr)
def test_the_same_bits_for_every_number_of_simulated_ranks(dtype: DType, radices: tuple[int, ...] | str | None):
    x, what, tree = leaves(dtype, 72, 101), reduction("sum", dtype), ReductionTree.of(72, radices)
    expected = reduce_leaves(x, tree, what)
    for ranks in RANKS:
        group = Group(SimulatedEngine(ranks), tuple(range(ranks)))
        found = all_reduce(group, dealt(x, ranks), what, tree)
        assert len(found) == ranks
        for value in found:
            assert np.array_equal(bits(value), bits(expected)), ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 9])
def test_the_same_bits_on_threads(ranks: int):
    x, what, tree = leaves(dtypes.f32, 18, 1003), reduction("mean", dtypes.f32), ReductionTree.binary(18)
    engine = ThreadedEngine(ranks)
    found = all_reduce(Group(engine, tuple(range(ranks))), dealt(x, ranks), what, tree)
    engine.stop()
    assert np.array_equal(bits(found[-1]), bits(reduce_leaves(x, tree, what)))
    assert all(value is found[0] for value in found)


def test_exact_sums_for_every_deal():
    x, what = leaves(dtypes.bf16, 12, 64), reduction("sum", dtypes.bf16, "exact")
    expected = reduce_leaves(x, ReductionTree.binary(12), what)
    for ranks in (1, 3, 5, 12):
        for order in (x, x[::-1]):
            for engine in (SimulatedEngine(ranks), ThreadedEngine(ranks)):
                tree = ReductionTree.of(12, "chain")
                found = all_reduce(Group(engine, tuple(range(ranks))), dealt(order, ranks), what, tree)
                assert np.array_equal(bits(found[0]), bits(expected))
                engine.stop()


def test_run_folds_what_a_rank_has_and_then_ranks(engine: RankEngine):
    x, what = leaves(dtypes.f32, 7, 50), reduction("sum", dtypes.f32, "run")
    mine = [x[:3], x[3:4], x[4:7], []]
    found = all_reduce(Group(engine, (0, 1, 2, 3)), mine, what, ReductionTree.binary(7))
    parts = [fold_partial(leaf, ReductionTree.binary(len(leaf)).leaf_fold(), what) for leaf in mine if leaf]
    expected = at_root(fold_partial(parts, left_fold([0, 1, 2]), what), what, 7)
    assert np.array_equal(bits(found[0]), bits(expected))
    assert not np.array_equal(bits(expected), bits(reduce_leaves(x, ReductionTree.binary(7), what)))


def test_a_group_is_a_part_of_the_ranks(engine: RankEngine):
    x, what = leaves(dtypes.i32, 2, 9), reduction("max", dtypes.i32)
    found = all_reduce(Group(engine, (3, 1)), [[x[0]], [x[1]]], what, ReductionTree.binary(2))
    assert np.array_equal(found[1], np.maximum(x[0], x[1]))
    assert len(found) == 2


@pytest.mark.parametrize("elements", [1, 3, 10])
def test_reduce_scatter_gives_parts_of_the_same_bits(engine: RankEngine, elements: int):
    x, what, tree = leaves(dtypes.f32, 8, max(elements, 3))[:8], reduction("sum", dtypes.f32), ReductionTree.binary(8)
    x = [leaf[:elements] for leaf in x]
    expected = reduce_leaves(x, tree, what)
    parts = reduce_scatter(Group(engine, (0, 1, 2, 3)), dealt(x, 4), what, tree)
    assert np.array_equal(bits(np.concatenate(parts)), bits(expected))
    own = [slice(0, 0), slice(0, elements), slice(elements, elements), slice(0, 1)]
    found = reduce_scatter(Group(engine, (0, 1, 2, 3)), dealt(x, 4), what, tree, own)
    assert [len(part) for part in found] == [0, elements, 0, 1]
    assert np.array_equal(bits(found[1]), bits(expected))


def test_gathered_exchanged_and_sent(engine: RankEngine):
    group = Group(engine, (0, 1, 2, 3))
    values = [np.arange(n, dtype=np.float32) + 10 * n for n in (2, 0, 3, 1)]
    whole = np.concatenate(values)
    assert all(np.array_equal(each, whole) for each in all_gather(group, values, dtypes.f32))
    parts = [np.array([10 * source + target for target in range(4)], np.int64) for source in range(4)]
    found = all_to_all(group, parts, dtypes.i64)
    assert [mine.tolist() for mine in found] == [[10 * source + target for source in range(4)] for target in range(4)]
    assert all(np.array_equal(each, values[2]) for each in broadcast(group, values[2], 2))
    around = permute(group, values, [(0, 1), (1, 2), (2, 0)])
    assert around[3] is None
    assert [len(each) for each in around[:3] if each is not None] == [3, 2, 0]


def test_what_ranks_do_not_agree_about(engine: RankEngine):
    group, what = Group(engine, (0, 1, 2, 3)), reduction("sum", dtypes.f32)
    one, two = np.zeros(1, np.float32), np.zeros(2, np.float32)
    with pytest.raises(RankMismatch, match="different numbers of elements: 1 at rank 0, 2 at rank 2"):
        all_reduce(group, [[one], [one], [two], [one]], what, ReductionTree.binary(4))
    with pytest.raises(RankMismatch, match="there are no leaves"):
        all_reduce(group, [[], [], [], []], what, ReductionTree.binary(4))
    with pytest.raises(BadReductionTree, match="the ranks hold 4 leaves, and the tree has 5"):
        all_reduce(group, [[one]] * 4, what, ReductionTree.binary(5))
    with pytest.raises(RankMismatch, match="2 elements are not 4 equal parts"):
        all_to_all(group, [two] * 4, dtypes.f32)
    with pytest.raises(RankMismatch, match="there is no rank 4"):
        permute(group, [one] * 4, [(0, 4)])
    with pytest.raises(RankMismatch, match="rank 1 is sent to twice"):
        permute(group, [one] * 4, [(0, 1), (2, 1)])


def test_what_is_moved_is_a_rings_volume_where_ranks_are_aligned():
    engine = SimulatedEngine(4)
    x = leaves(dtypes.f32, 8, 4096)
    all_reduce(Group(engine, (0, 1, 2, 3)), dealt(x, 4), reduction("sum", dtypes.f32), ReductionTree.binary(8))
    assert engine.stats().sent == dict.fromkeys(range(4), 2 * 3 * 4096)  # 2 (n - 1) / n of 16 KiB
    assert engine.stats().counts == {"all_to_all": 1, "all_gather": 1}
    assert engine.clock > 0
