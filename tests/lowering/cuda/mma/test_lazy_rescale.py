"""Sums that are multiplied only where a factor is not one."""

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import attention, code, places
from support.builder import Builder
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program


def loop(opcode: str, *, read_twice: bool = False) -> Program:
    """acc = acc * f(a - b) for each row, then a product is added; `opcode` is f."""
    b = Builder("loop")
    x = b.array("X", bf16, "M", "K", aligned=True)
    y = b.array("Y", bf16, "K", 64, aligned=True)
    rows = b.array("R", f32, "M", aligned=True)
    out = b.array("O", f32, "M", 64, aligned=True, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        start = b.full(b.const(0.0, f32), 128, 64)
        with b.loop(zero, b.dim("K"), b.const(64), [start], names=("k", "acc")) as k:
            row = b.load(rows, [m.index], [128])
            factor = b.value(opcode, b.value("sub", row, b.full(b.const(1.0, f32), 128)))
            wide = b.broadcast(b.reshape(factor, 128, 1), 128, 64)
            scaled = b.value("mul", k.carried[0], wide)
            total = b.dot(b.load(x, [m.index, k.index], [128, 64]), b.load(y, [k.index, zero], [64, 64]), scaled)
            k.yields = (b.value("add", total, scaled) if read_twice else total,)
        b.store(out, k.results[0], [m.index, zero], [128, 64])
    return b.program()


def test_powers_of_differences_are_mostly_one():
    for opcode, expected in (("exp2", 1), ("exp", 1), ("abs", 0)):
        plan, _ = plan_of(loop(opcode))
        assert plan is not None
        assert len(plan.rescalings) == expected, opcode


def test_only_what_a_product_adds_to_and_nobody_else_reads():
    plan, _ = plan_of(loop("exp2", read_twice=True))
    assert plan is not None
    assert not plan.rescalings


def test_a_warp_asks_its_lanes_before_it_multiplies():
    text = code(attention())
    assert len(places(text, r"vote\.sync\.any\.pred")) == 2  # the first round, and the others
