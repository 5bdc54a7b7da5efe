"""Which loops hold two products in a row, and which of them may be done a round ahead."""

import pytest

from lowering.target.cuda.tiles.cases import plan_of
from lowering.target.cuda.tiles.hopper import attention
from support.builder import Builder
from tessera.core.dtypes import bf16, f32
from tessera.core.program.program import Program


@pytest.mark.parametrize("causal", [False, True])
def test_products_of_attention(causal: bool):
    plan, _ = plan_of(attention(causal=causal, width=64))
    assert plan is not None
    for overlap in plan.overlaps.values():
        first, last = overlap.readers
        assert str(first.name) == "tessera.reduce"  # the maximum, not the branch that masks
        assert str(last.name) == "math.fma"
        assert [str(op.name) for op in overlap.ahead] == ["tessera.load", "tessera.transpose", "tessera.dot"]


@pytest.mark.parametrize(("width", "ahead"), [(32, True), (64, True), (128, False)])
def test_a_round_ahead_where_registers_hold_two_rounds_scores(width: int, ahead: bool):
    plan, _ = plan_of(attention(width=width))
    assert plan is not None
    assert plan.overlaps
    assert all(bool(overlap.ahead) == ahead for overlap in plan.overlaps.values())


def loop(*, sums_first: bool = False, same: bool = False) -> Program:
    """O = sum (Q K_n) V_n, where the sums are halved before the scores are read, or V_n is K_n itself."""
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
            n.yields = (b.dot(b.cast(scores, bf16), values, acc),)
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
    assert all(not overlap.ahead for overlap in plan.overlaps.values())
