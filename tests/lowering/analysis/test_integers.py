"""Bounds of integers, from what makes them."""

from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings

from lowering.analysis.scalar_programs import LANES, SOME_LANES, Execution, WrappedError, scalar_programs
from support.mlir import function, parse
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.integers import Bounds, integer_ranges
from tessera.lowering.base.ir_walk import body, kernel, operations

DIM = '%n = "tessera.dim"() {symbol = "n"} : () -> i64\n'
LANE = '%i = "tessera.id"() {of = "lane"} : () -> i64\n'
TWO = "%two = arith.constant 2 : i64\n"
LARGE = 1 << 47


def bounds(body: str, group: tuple[int, ...] | None = None):
    """The bounds of `%r` in `body`."""
    module = parse(
        function(f'{body}\n"tessera.use"(%r) : (i64) -> ()\nreturn', "%x: i64").replace(
            '"tessera.use"(%r) : (i64) -> ()',
            '%shown = "tessera.shuffle"(%r, %r) {mode = "idx", width = 32 : i64} : (i64, i64) -> i64',
        )
    )
    (use,) = operations(module, "tessera.shuffle")
    return integer_ranges(use, group).bounds(use.operands[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%r = arith.constant 7 : i64", (7, 7)),
        (DIM + TWO + "%r = arith.addi %n, %two : i64", (2, LARGE + 2)),
        (LANE + TWO + "%r = arith.subi %two, %i : i64", (-125, 2)),
        (LANE + TWO + "%r = arith.muli %i, %two : i64", (0, 254)),
        (LANE + TWO + "%r = arith.divui %i, %two : i64", (0, 63)),
        (LANE + TWO + "%r = arith.remui %i, %two : i64", (0, 1)),
        (LANE + DIM + "%r = arith.divui %i, %n : i64", (0, 127)),  # by more than 0, or never
        (LANE + DIM + "%r = arith.remui %i, %n : i64", (0, 127)),
        (LANE + TWO + "%r = arith.minsi %i, %two : i64", (0, 2)),
        (LANE + TWO + "%r = arith.maxsi %i, %two : i64", (2, 127)),
        (LANE + TWO + "%c = arith.cmpi slt, %i, %two : i64\n%r = arith.select %c, %i, %two : i64", (0, 127)),
        ('%r = "tessera.id"() {of = "warp"} : () -> i64', (0, 3)),
        ('%r = "tessera.id"() {of = "group_lanes"} : () -> i64', (128, 128)),
        ('%r = "tessera.id"() {of = "grid_groups"} : () -> i64', (1, LARGE)),
    ],
)
def test_numbers(body: str, expected: tuple[int, int]):
    found = bounds(body, (128,))
    assert (found.low, found.high) == expected


@pytest.mark.parametrize(
    "body",
    ["%r = arith.addi %x, %x : i64", LANE + "%r = arith.remsi %i, %x : i64", TWO + "%r = arith.divsi %x, %two : i64",
     DIM + "%m = arith.muli %n, %n : i64\n%r = arith.addi %m, %m : i64"],
    ids=["any argument", "rest by one", "half of one", "may wrap"],
)  # fmt: skip
def test_unknown(body: str):
    assert bounds(body) is None


def test_symbols_travel_through_sums():
    found = bounds(DIM + TWO + "%r = arith.subi %n, %two : i64")
    assert found.above["n"] == -2
    assert found.below("n")
    assert not found.below("m")


@pytest.mark.parametrize(("extent", "below"), [(5, True), (4, False), ("n", True), ("m", False), ("k", False)])
def test_below(extent: int | str, below: bool):
    assert Bounds(0, {None: 4, "n": -1, "m": 0}).below(extent) is below


def least_of(lines: str) -> int | None:
    """The least that `%r` can be."""
    read = '\n%shown = "tessera.shuffle"(%r, %r) {mode = "idx", width = 32 : i64} : (i64, i64) -> i64\nreturn'
    module = parse(function(lines + read, "%x: i64"))
    (use,) = operations(module, "tessera.shuffle")
    return integer_ranges(use).least(use.operands[0])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (TWO + "%r = arith.addi %two, %two : i64", 4),
        (DIM + "%m = arith.muli %n, %n : i64\n%r = arith.muli %m, %n : i64", 0),  # unknown bounds, known sign
        (DIM + "%m = arith.muli %n, %n : i64\n%r = arith.subi %m, %n : i64", None),
        (DIM + "%r = arith.addi %n, %x : i64", None),
    ],
    ids=["bounds", "products", "difference", "argument"],
)
def test_least(lines: str, expected: int | None):
    assert least_of(lines) == expected


@settings(max_examples=60, deadline=None)
@given(scalar_programs())
def test_every_number_is_within_its_bounds(text: str):
    with shared_context():
        module = parse(text)
        run = Execution(kernel(module))
        facts = integer_ranges(body(kernel(module)).operations[0], (LANES,))
        known = [(facts.bounds(v), facts.least(v)) if str(v.type) == "i64" else (None, None) for v in run.values]
        try:
            for ids, trace in run.traces(SOME_LANES):
                for (place, _), number in trace.items():
                    found, least = known[place]
                    assert least is None or number >= least, str(run.values[place])
                    uppers: Mapping[str | None, int] = {} if found is None else found.above
                    for symbol, above in uppers.items():
                        assert number <= above + (0 if symbol is None else ids[symbol]), str(run.values[place])
        except WrappedError:
            assume(condition=False)
