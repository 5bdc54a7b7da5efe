"""tile-mask-edges: what is proven inside, and that no claim is wrong."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import programs
from support.builder import Builder
from support.evaluate import run
from support.mlir import lowered, shown
from tessera.core.base.dtypes import f32, i64
from tessera.core.program.program import Block, Domain, Op, Program, Value
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.simplify import Simplify


def claims(program: Program, *passes: Pass) -> list[str]:
    """Each access of the kernel, with what is claimed of it."""
    return [
        line.strip() for line in shown(program, *passes, MaskEdges()).split("\n") if "tessera." in line and "[" in line
    ]


def test_the_guard_of_saxpy():
    assert claims(programs.saxpy()) == [
        "%1 = tessera.read %x[%i] in_bounds [0] : f32",
        "%3 = tessera.read %y[%i] in_bounds [0] : f32",
        "tessera.write %4, %y[%i] in_bounds [0]",
    ]


def test_a_strided_loop_over_lanes():
    text = "\n".join(claims(programs.group_sum()))
    assert "tessera.read %x[%k] in_bounds [0]" in text
    assert "tessera.write %acc, %smem[%i] in_bounds [0]" in text
    assert "tessera.load %smem[0:+128] in_bounds [0]" in text
    assert "tessera.write %total, %out[%group]" in text
    assert "out[%group] in_bounds" not in text


def test_edges_of_tiles_stay_masked():
    assert not any("in_bounds" in line for line in claims(programs.tile_copy()))
    assert claims(programs.softmax_rows())[0].endswith("%x[%r:+8, 0:+256] in_bounds [1] : tile<8x256xf32>")


Expression = Callable[[Builder, Value], Value]
"""What a builder makes of the index of a lane."""


def guarded(condition: Expression, index: Expression = lambda b, i: i) -> Program:
    b = Builder("guarded")
    x = b.array("x", f32, "n", mutable=True)
    i = b.id("thread", name="i")
    with b.when(condition(b, i)):
        b.write(x, b.const(1.0, f32), index(b, i))
    return b.program(domain=Domain("lanes", ("n",)))


def both(b: Builder, *conditions: Value):
    return b.value("and", *conditions)


PROVEN: dict[str, tuple[Expression, Expression]] = {
    "i < n": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: i),
    "n > i": (lambda b, i: b.compare("gt", b.dim("n"), i), lambda b, i: i),
    "i <= n - 1": (lambda b, i: b.compare("le", i, b.value("sub", b.dim("n"), b.const(1))), lambda b, i: i),
    "i + 1 < n at i + 1": (
        lambda b, i: b.compare("lt", b.value("add", i, b.const(1)), b.dim("n")),
        lambda b, i: b.value("add", i, b.const(1)),
    ),
    "i < n and i > 0 at i - 1": (
        lambda b, i: both(b, b.compare("lt", i, b.dim("n")), b.compare("gt", i, b.const(0))),
        lambda b, i: b.value("sub", i, b.const(1)),
    ),
    "not (i >= n)": (lambda b, i: b.value("not", b.compare("ge", i, b.dim("n"))), lambda b, i: i),
    "i < n at i // 2": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: b.value("floordiv", i, b.const(2))),
    "i < n at min(i, 7)": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: b.value("min", i, b.const(7))),
    "7 == i < n": (
        lambda b, i: both(b, b.compare("eq", b.const(7), i), b.compare("lt", i, b.dim("n"))),
        lambda b, i: b.const(7),
    ),
}
OPEN: dict[str, tuple[Expression, Expression]] = {
    "i <= n": (lambda b, i: b.compare("le", i, b.dim("n")), lambda b, i: i),
    "i != n": (lambda b, i: b.compare("ne", i, b.dim("n")), lambda b, i: i),
    "i < n at i + 1": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: b.value("add", i, b.const(1))),
    "i < n at i - 1": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: b.value("sub", i, b.const(1))),
    "i < n or i < 5": (
        lambda b, i: b.value("or", b.compare("lt", i, b.dim("n")), b.compare("lt", i, b.const(5))), lambda b, i: i
    ),
    "i < m": (lambda b, i: b.compare("lt", i, b.dim("m")), lambda b, i: i),
    "i < n at 2 i": (lambda b, i: b.compare("lt", i, b.dim("n")), lambda b, i: b.value("mul", i, b.const(2))),
}  # fmt: skip


@pytest.mark.parametrize(("condition", "index"), PROVEN.values(), ids=PROVEN)
def test_proven_by_a_branch(condition: Expression, index: Expression):
    assert claims(guarded(condition, index), Simplify())[-1].endswith("in_bounds [0]")


@pytest.mark.parametrize(("condition", "index"), OPEN.values(), ids=OPEN)
def test_not_proven_by_a_branch(condition: Expression, index: Expression):
    assert not claims(guarded(condition, index), Simplify())[-1].endswith("in_bounds [0]")


def test_the_else_branch_knows_the_opposite():
    b = Builder("otherwise")
    x = b.array("x", f32, "n", mutable=True)
    i, one = b.id("thread"), b.const(1.0, f32)
    condition = b.compare("ge", i, b.dim("n"))
    span = b.span()
    done = Op("yield", span=span)
    write = Op("write", (x, one, i), (), {"cache": ""}, (), span)
    b.blocks[0].append(Op("if", (condition,), (), {}, (Block((), (write, done)), Block((), (write, done))), span))
    first, second = claims(b.program())
    assert "in_bounds" not in first
    assert second.endswith("in_bounds [0]")


@pytest.mark.parametrize(
    ("extent", "step", "inside"), [(64, 16, True), (60, 16, False), (64, 48, False), (16, 16, True)]
)
def test_static_loops(extent: int, step: int, inside: bool):
    b = Builder("static")
    x = b.array("x", f32, extent, mutable=True)
    with b.loop(b.const(0), b.const(extent), b.const(step), names=("t",)) as loop:
        b.store(x, b.load(x, [loop.index], [step]), [loop.index], [step])
    assert all(line.endswith("in_bounds [0]") == inside for line in claims(b.program()) if "store" in line)


def test_lanes_of_a_group():
    b = Builder("lanes")
    smem = b.alloc(i64, 4, 8)
    row, column = b.id("lane", 0), b.id("lane", 1)
    b.write(smem, row, row, column)
    b.write(smem, row, column, row)
    b.write(smem, row, b.id("lane_in_warp"), b.id("warp"))
    written = claims(b.program(group=(4, 8)))
    assert [line.partition("]")[2].strip() for line in written] == [
        "in_bounds [0, 1]",
        "in_bounds [1]",
        "in_bounds [1]",
    ]


@settings(max_examples=25)
@given(
    st.integers(1, 12),
    st.tuples(st.integers(-6, 6), st.integers(-6, 14), st.integers(1, 4)),
    st.tuples(st.sampled_from(["lt", "le", "gt", "ne"]), st.integers(-3, 3)),
    st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "min", "max"]),
    st.integers(-3, 5),
)
def test_no_claim_is_wrong(extent: int, span: tuple[int, int, int], guard: tuple[str, int], opcode: str, operand: int):
    (lower, upper, step), (predicate, bound) = span, guard
    b = Builder("random")
    x = b.array("x", f32, extent, mutable=True)
    y = b.array("y", f32, "n", mutable=True)
    with b.loop(b.const(lower), b.const(upper), b.const(step), names=("t",)) as loop:
        index = b.value(opcode, loop.index, b.const(operand))
        limit = b.value("add", b.dim("n"), b.const(bound))
        with b.when(b.compare(predicate, index, limit)):
            b.write(x, b.const(1.0, f32), index)
            b.write(y, b.const(2.0, f32), index)
            b.store(x, b.load(y, [index], [2]), [loop.index], [2])
    module = lowered(b.program(), Simplify(), MaskEdges())
    run(module, {"n": 7}, np.zeros(extent, np.float32), np.zeros(7, np.float32))  # a wrong claim is a Trap
