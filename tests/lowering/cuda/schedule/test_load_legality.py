"""Which loads go to shared memory as they are."""

import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import code, gradients
from support.builder import Builder
from tessera.core.base.dtypes import bf16, f32, i64
from tessera.core.program.program import Program
from tessera.core.program.types import Scalar


@pytest.mark.parametrize(("length", "along"), [(1024, 3), (1026, 1)], ids=["aligned", "rows of 4104 bytes"])
def test_vectors_of_aligned_arrays_come_with_a_factor(length: int, along: int):
    """A head's 1026 f32 do not begin at multiples of 16 bytes: lanes read them from the array."""
    plan, _ = plan_of(gradients(length=length))
    assert plan is not None
    assert max(len(ring.loads) for ring in plan.rings) == along


def product(bound: str) -> Program:
    """C = A B, as deep as an array says: its largest element, or one that a group counts up."""
    b = Builder("product")
    a, w = b.array("A", bf16, "M", "K", aligned=True), b.array("B", bf16, "K", "N", aligned=True)
    c = b.array("C", f32, "M", "N", aligned=True, mutable=True)
    depths = b.array("D", i64, "P", mutable=bound == "counted")
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        if bound == "largest":
            depth = b.op("reduce", (b.load(depths, [zero], [32]),), Scalar(i64), kind="max", axis=None)
        else:
            depth = b.read(depths, zero)
        if bound == "counted":
            b.write(depths, b.value("add", depth, b.const(1)), zero)
        start = b.full(b.const(0.0, f32), 128, 64)
        with b.loop(zero, depth, b.const(64), [start], names=("k", "acc")) as k:
            left, right = b.load(a, [m.index, k.index], [128, 64]), b.load(w, [k.index, zero], [64, 64])
            k.yields = (b.dot(left, right, k.carried[0]),)
        b.store(c, k.results[0], [m.index, zero], [128, 64])
    return b.program()


@pytest.mark.parametrize(("bound", "ahead"), [("read", True), ("largest", False), ("counted", False)])
def test_a_warp_copies_alone_where_it_knows_how_often(bound: str, ahead: bool):
    """Not where a tile says it, which that warp has none of, nor an array that the others are changing."""
    plan, _ = plan_of(product(bound))
    assert plan is not None
    assert bool(plan.rings) == ahead
    assert "wgmma.mma_async" in code(product(bound))
