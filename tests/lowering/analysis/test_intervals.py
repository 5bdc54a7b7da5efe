"""Intervals of a Program's integers."""

from collections.abc import Callable

import pytest

from support.builder import Builder
from tessera.core.base.dtypes import i8, i64
from tessera.core.program.program import Value
from tessera.lowering.analysis.intervals import Intervals

LARGE = 1 << 47


def learned(make: Callable[[Builder], Value]):
    """The interval of what `make(builder)` makes last."""
    b = Builder("intervals")
    value = make(b)
    intervals = Intervals()
    for op in b.blocks[0]:
        intervals.learn(op)
    return intervals.of(value)


INTERVALS: list[tuple[Callable[[Builder], Value], tuple[int, int] | None]] = [
    (lambda b: b.const(5), (5, 5)),
    (lambda b: b.id("lane"), (0, LARGE)),
    (lambda b: b.id("group_lanes"), (1, LARGE)),
    (lambda b: b.value("mul", b.const(-2), b.const(3)), (-6, -6)),
    (lambda b: b.value("sub", b.const(1), b.id("lane")), (1 - LARGE, 1)),
    (lambda b: b.value("mod", b.id("lane"), b.const(8)), (0, 7)),
    (lambda b: b.value("floordiv", b.const(-9), b.const(2)), (-5, -5)),
    (lambda b: b.value("min", b.id("lane"), b.const(8)), (0, 8)),
    (lambda b: b.value("max", b.const(-4), b.const(8)), (8, 8)),
    (lambda b: b.cast(b.const(100, i8), i64), (100, 100)),
    (lambda b: b.value("add", b.const(100, i8), b.const(100, i8)), None),
    (lambda b: b.cast(b.const(300), i8), None),
    (lambda b: b.value("mul", b.id("lane"), b.id("lane")), None),
    (lambda b: b.value("floordiv", b.id("lane"), b.const(0)), None),
    (lambda b: b.value("add", b.scalar("s", i64), b.const(1)), None),
    (lambda b: b.value("xor", b.const(1), b.const(1)), None),
    (lambda b: b.const(1.5), None),
]


@pytest.mark.parametrize(("make", "expected"), INTERVALS)
def test_intervals(make: Callable[[Builder], Value], expected: tuple[int, int] | None):
    assert learned(make) == expected


def test_the_index_of_a_loop():
    b = Builder("loop")
    with b.loop(b.const(2), b.const(9), b.const(3)) as loop:
        pass
    intervals = Intervals()
    for op in b.blocks[0]:
        intervals.learn(op)
    assert intervals.of(loop.index) == (2, 8)
    assert intervals.constant(b.blocks[0][0].result) == 2
    assert intervals.constant(loop.index) is None
