"""Accesses to one array, by different lanes and by the copy engine, in the order that the kernel says."""

import re

import numpy as np
import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.compare import agree, normal
from support.builder import Builder
from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program

WAIT = r"cp\.async\.bulk\.wait_group 0;"


def shifted(distance: int) -> Program:
    """Y[0:64] = -X[0:64], then Y[distance:distance + 64] = X[0:64], row by row."""
    b = Writer("shifted")
    x, y = b.array("x", f32, "M", "N"), b.array("y", f32, "M", "N", mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(64), kind="tile") as m:
        tile = b.load(x, [m.index, zero], [64, 64])
        b.store(y, b.value("neg", tile), [m.index, zero], [64, 64])
        b.store(y, tile, [m.index, b.const(distance)], [64, 64])
    return b.program()


@pytest.mark.parametrize("seed", range(4))
def test_the_second_of_two_stores_stays(seed: int):
    agree(shifted(8), [normal(64, 96), np.zeros((64, 96), np.float32)], arch="sm_80", seed=seed)


def stepping(step: int, factor: int = 1) -> Program:
    """Y[factor * n : factor * n + 64] = X[n] for n = 0, step, ...: blocks of 64 elements, `factor * step` apart."""
    b = Writer("stepping")
    x, y = b.array("x", f32, "M", "N"), b.array("y", f32, "M", "N", mutable=True)
    zero = b.const(0)
    with (
        b.loop(zero, b.dim("M"), b.const(64), kind="tile") as m,
        b.loop(zero, b.dim("N"), b.const(step)) as n,
    ):
        place = b.value("mul", n.index, b.const(factor)) if factor > 1 else n.index
        b.store(y, b.load(x, [m.index, n.index], [64, 64]), [m.index, place], [64, 64])
    return b.program()


@pytest.mark.parametrize("seed", range(4))
def test_stores_of_later_rounds_stay(seed: int):
    agree(stepping(24), [normal(64, 96), np.zeros((64, 96), np.float32)], arch="sm_80", seed=seed)


@pytest.mark.parametrize(
    ("program", "waits"),
    [
        (shifted(8), 2),
        (shifted(64), 0),  # behind the first one's end
        (stepping(24), 1),
        (stepping(64), 0),  # a block for each round
        (stepping(16, 4), 0),
        (stepping(8, 4), 1),
    ],
    ids=["8 apart", "64 apart", "rounds of 24", "rounds of 64", "rounds of 16 times 4", "rounds of 8 times 4"],
)
def test_nobody_waits_between_stores_that_cannot_meet(program: Program, waits: int):
    plan, _ = plan_of(program)
    assert plan is not None
    assert len(plan.order.waits) == waits


def product(again: str = "") -> Program:
    """C = A B by warp groups, whose result goes on in D: read back from C, or as C's other half."""
    b = Builder("product")
    a, w = b.array("A", bf16, "M", "K", aligned=True), b.array("B", bf16, "K", "N", aligned=True)
    c = b.array("C", bf16, "M", "N", aligned=True, mutable=True)
    d = b.array("D", bf16, "M", "N", aligned=True, mutable=True)
    zero = b.const(0)
    with b.loop(zero, b.dim("M"), b.const(128), kind="tile", names=("m",)) as m:
        start = b.full(b.const(0.0, f32), 128, 64)
        if again == "before":
            start = b.cast(b.load(c, [m.index, zero], [128, 64]), f32)
        with b.loop(zero, b.dim("K"), b.const(64), [start], names=("k", "acc")) as k:
            left, right = b.load(a, [m.index, k.index], [128, 64]), b.load(w, [k.index, zero], [64, 64])
            k.yields = (b.dot(left, right, k.carried[0]),)
        b.store(c, b.cast(k.results[0], bf16), [m.index, zero], [128, 64])
        if again == "behind":
            b.store(d, b.load(c, [m.index, b.const(8)], [128, 64]), [m.index, zero], [128, 64])
    return b.program()


@pytest.mark.parametrize(("again", "waits"), [("", 0), ("before", 0), ("behind", 1)])
def test_what_the_copy_engine_stores_has_arrived_before_it_is_read(again: str, waits: int):
    text = ptx_of(compile_ptx(product(again)))
    assert "cp.async.bulk.tensor.2d.global" in text
    found = [match.start() for match in re.finditer(WAIT, text)]
    assert len(found) == waits
    if waits:
        stored = text[text.index("cp.async.bulk.commit_group") :]
        if found[0] < len(text) - len(stored):  # the block that follows may stand before it in the text
            (following,) = re.findall(r"\A(?:(?!\$L).)*?bra\.uni\s+(\$L\w+)", stored, re.DOTALL)
            stored = text[text.index(f"{following}:") :]
        assert re.match(r"(?:(?!wgmma).)*?" + WAIT + r".*?bar\.sync", stored, re.DOTALL)
