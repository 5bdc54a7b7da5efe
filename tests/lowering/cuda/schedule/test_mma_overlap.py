"""Which loops hold two products in a row, and which of them may be done a round ahead."""

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import attention, code
from support.builder import Builder
from tessera.api.source_module import compile_source
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program


@pytest.mark.parametrize("causal", [False, True])
def test_products_of_attention(causal: bool):
    plan, _ = plan_of(attention(causal=causal, width=64))
    assert plan is not None
    for overlap in plan.overlaps.values():
        first, last = overlap.readers
        assert str(first.name) == "tessera.reduce"  # the maximum, not the branch that masks
        assert str(last.name) == "math.fma"
        assert [str(op.name) for op in overlap.prefetched] == ["tessera.load", "tessera.transpose", "tessera.dot"]


@pytest.mark.parametrize(("width", "prefetched"), [(32, True), (64, True), (128, False)])
def test_a_round_ahead_where_registers_hold_two_rounds_scores(width: int, prefetched: bool):
    plan, _ = plan_of(attention(width=width))
    assert plan is not None
    assert plan.overlaps
    assert all(bool(overlap.prefetched) == prefetched for overlap in plan.overlaps.values())


def test_no_round_ahead_beside_another_tile_that_lanes_read():
    """Its registers are not there."""
    kernel = compile_source("""
@kernel
def biased(Q: bf16[S, 64], K: bf16[S, 64], V: bf16[S, 64], X: bf16[S, S], O: mut f32[S, 64]):
    for m in tile.range(S, step=128):
        q, top, out = Q[m:m+128, :], tile.full((128, 1), -1e30), tile.zeros((128, 64))
        for n in range(0, S, 128):
            scores = tile.dot(q, K[n:n+128, :].T) + tile.cast(X[m:m+128, n:n+128], f32)
            above = tile.maximum(top, tile.max(scores, axis=1, keepdims=True))
            weights = tile.cast(tile.exp2(scores - above), bf16)
            out = tile.dot(weights, V[n:n+128, :], out * tile.exp2(top - above))
            top = above
        O[m:m+128, :] = out
""").biased
    q, x = np.zeros((256, 64), bfloat16), np.zeros((256, 256), bfloat16)
    compiled = kernel.compile(q, q, q, x, np.zeros((256, 64), np.float32), target="cuda:sm_90a")
    plan, _ = plan_of(compiled.program)
    assert plan is not None
    assert [overlap.prefetched for overlap in plan.overlaps.values()] == [()]
    assert compiled.artifact.resources.spill_bytes == 0


@pytest.mark.parametrize(
    ("width", "causal", "turns"), [(64, False, True), (64, True, True), (128, False, True), (128, True, False)]
)
def test_turns_are_for_groups_in_step_and_products_that_are_ahead(width: int, causal: bool, turns: bool):
    plan, _ = plan_of(attention(width=width, causal=causal))
    assert plan is not None
    assert plan.schedule.pingpong == turns


def loop(*, sums_first: bool = False, same: bool = False, last: bool = False) -> Program:
    """O = sum (Q K_n) V_n, where the sums are halved before the scores are read, V_n is K_n, or the last one is all."""
    b = Builder("loop")
    q = b.array("Q", bf16, "M", 64, aligned=True)
    k = b.array("K", bf16, "N", 64, aligned=True)
    v = b.array("V", bf16, "N", 64, aligned=True)
    out = b.array("O", f32, "M", 64, aligned=True, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        left = b.load(q, [m.index, zero], [128, 64])
        start = b.full(b.const(0.0, f32), 128, 64)
        with b.loop(zero, b.dim("N"), b.const(64), [start], names=("n", "acc")) as n:
            acc = n.carried[0]
            keys = b.load(k, [n.index, zero], [64, 64])
            if sums_first:
                acc = b.value("mul", acc, b.full(b.const(0.5, f32), 128, 64))
            scores = b.dot(left, keys, dtype=f32)
            values = keys if same else b.load(v, [n.index, zero], [64, 64])
            n.yields = (b.dot(b.cast(scores, bf16), values, start if last else acc),)
        b.store(out, n.results[0], [m.index, zero], [128, 64])
    return b.program()


def test_sums_may_only_be_touched_behind_the_scores():
    plan, _ = plan_of(loop())
    assert plan is not None
    assert len(plan.overlaps) == 1
    plan, _ = plan_of(loop(sums_first=True))
    assert plan is not None
    assert not plan.overlaps


def test_keys_that_are_values_as_well_are_not_freed_early():
    plan, _ = plan_of(loop(same=True))
    assert plan is not None
    assert all(not overlap.prefetched for overlap in plan.overlaps.values())


def test_sums_that_no_round_reads_are_waited_for_at_once():
    """Nobody would free the buffers of V_n."""
    plan, _ = plan_of(loop(last=True))
    assert plan is not None
    assert not plan.overlaps


def test_a_loop_in_which_the_team_copies_stays_as_it_is():
    """A third product, exact and of arrays that begin anywhere, has its factors copied by the consumer warps."""
    b = Builder("loop")
    q, k, v = (b.array(name, bf16, "N", 64, aligned=True) for name in "QKV")
    x, y = b.array("X", f32, 64, "N"), b.array("Y", f32, "N", 32)
    out, other = b.array("O", f32, "N", 64, aligned=True, mutable=True), b.array("P", f32, "N", 32, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("N"), b.const(128), kind="tile", names=("m",)) as m:
        left = b.load(q, [m.index, zero], [128, 64])
        start = [b.full(b.const(0.0, f32), *shape) for shape in ((128, 64), (64, 32))]
        with b.loop(zero, b.dim("N"), b.const(64), start, names=("n", "a", "b")) as n:
            scores = b.dot(left, b.load(k, [n.index, zero], [64, 64]), dtype=f32)
            exact = b.dot(b.load(x, [zero, n.index], [64, 64]), b.load(y, [n.index, zero], [64, 32]), n.carried[1])
            n.yields = (b.dot(b.cast(scores, bf16), b.load(v, [n.index, zero], [64, 64]), n.carried[0]), exact)
        b.store(out, n.results[0], [m.index, zero], [128, 64])
        b.store(other, n.results[1], [m.index, zero], [64, 32])
    program = b.program(pad_rows=0)
    plan, _ = plan_of(program)
    assert plan is not None
    assert plan.copies
    assert not plan.overlaps
    assert {"wgmma.mma_async", "fma.rn.f32"} <= set(re.findall(r"wgmma\.mma_async|fma\.rn\.f32", code(program)))


@pytest.mark.parametrize("products", [2, 4])
def test_right_factors_that_are_computed(products: int):
    """Weights of 8 bits, say, which a kernel widens itself: they come from no ring, and nothing waits for one."""
    b = Builder("loop")
    x, w = (b.array(name, bf16, "N", 64, aligned=True) for name in "XW")
    out = [b.array(name, f32, "N", 64, aligned=True, mutable=True) for name in "OPQR"[:products]]
    zero = b.const(0)
    with b.loop(zero, b.dim("N"), b.const(64), kind="tile", names=("m",)) as m:
        start = [b.full(b.const(0.0, f32), 64, 64)] * products
        with b.loop(zero, b.dim("N"), b.const(64), start, names=("n", *"abcd"[:products])) as n:
            left, weights = (b.load(array, [n.index, zero], [64, 64]) for array in (x, w))
            scaled = [b.value("mul", weights, b.full(b.const(2.0 + i, bf16), 64, 64)) for i in range(products)]
            n.yields = tuple(b.dot(left, one, acc) for one, acc in zip(scaled, n.carried, strict=True))
        for array, total in zip(out, n.results, strict=True):
            b.store(array, total, [m.index, zero], [64, 64])
    plan, _ = plan_of(b.program())
    assert plan is not None
    assert not plan.overlaps
    assert not plan.running
