"""Which loads are copied ahead, and which products run on."""

from lowering.cuda.cases import plan_of
from support.builder import Builder
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program


def loop(*, reads_sum: bool = False, writes_factor: bool = False) -> Program:
    """C = A B, K in steps of 64, with one thing that keeps a load or a product from what it would otherwise do."""
    b = Builder("loop")
    a = b.array("A", bf16, "M", "K", aligned=True, mutable=writes_factor)
    w = b.array("B", bf16, "K", "N", aligned=True)
    c = b.array("C", f32, "M", "N", aligned=True, mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m,
        b.loop(zero, b.dim("N"), b.const(128), kind="tile", names=("n",)) as n,
    ):
        start = b.full(b.const(0.0, f32), 128, 128)
        with b.loop(zero, b.dim("K"), b.const(64), [start], names=("k", "acc")) as k:
            left = b.load(a, [m.index, k.index], [128, 64])
            right = b.load(w, [k.index, n.index], [64, 128])
            total = b.dot(left, right, k.carried[0])
            if reads_sum:
                total = b.value("mul", total, b.full(b.const(0.5, f32), 128, 128))
            k.yields = (total,)
        b.store(c, k.results[0], [m.index, n.index], [128, 128])
        if writes_factor:
            b.store(a, b.full(b.const(0.0, bf16), 128, 64), [m.index, zero], [128, 64])
    return b.program()


def test_a_sum_that_goes_straight_on_is_not_waited_for():
    plan, _ = plan_of(loop())
    assert plan is not None
    assert [ring.running is not None for ring in plan.rings] == [True]


def test_a_sum_that_somebody_reads_is_waited_for():
    plan, _ = plan_of(loop(reads_sum=True))
    assert plan is not None
    assert [ring.running for ring in plan.rings] == [None]


def test_what_the_kernel_writes_is_not_copied_ahead():
    plan, _ = plan_of(loop(writes_factor=True))
    assert plan is None or all(len(ring.loads) == 1 for ring in plan.rings)
