"""Lock-step under masks gives what each lane gives on its own."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from support.interpret_programs import Writer
from support.lane_by_lane import run_lanes
from support.random_programs import Case, cases
from tessera.core.base.dtypes import i64
from tessera.core.program.program import Domain, Value
from tessera.runtime.interpret.run import run

UNCHECKED = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, any NaN being as good as another."""
    if a.dtype.kind not in "iub":
        nan = np.isnan(a) & np.isnan(b)
        return bool(np.all(nan | (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}"))))
    return bool(np.array_equal(a, b))


@given(cases(tiles=False))
@settings(max_examples=30, deadline=None, suppress_health_check=UNCHECKED)
def test_lock_step_is_what_each_lane_does(case: Case) -> None:
    together, apart = case.arguments(), case.arguments()
    run(case.program, together, symbols=case.symbols, grid=(case.groups,), sanitize=False)
    run_lanes(case.program, apart, case.symbols, case.groups)
    for parameter, a, b in zip(case.program.parameters, together, apart, strict=True):
        assert same_bits(a, b), parameter.name


@given(cases(inside=True))
@settings(max_examples=60, deadline=None, suppress_health_check=UNCHECKED)
def test_the_sanitizer_is_silent_about_right_kernels_and_changes_nothing(case: Case) -> None:
    plain, watched = case.arguments(), case.arguments()
    run(case.program, plain, symbols=case.symbols, grid=(case.groups,))
    run(case.program, watched, symbols=case.symbols, grid=(case.groups,), sanitize=True)
    for parameter, a, b in zip(case.program.parameters, plain, watched, strict=True):
        assert same_bits(a, b), parameter.name


def on_lanes(build: Callable[[Writer, Value], Value], lanes: int = 64) -> list[int]:
    """What each lane of one group gets from `build(writer, lane id)`, an i64."""
    b = Writer("lanes")
    out = b.array("out", i64, lanes, mutable=True)
    i = b.id("lane")
    b.write(out, build(b, i), i)
    result = np.zeros(lanes, np.int64)
    run(b.program(domain=Domain("lanes", (lanes,)), group=(lanes,)), [result], symbols={})
    return result.tolist()


@pytest.mark.parametrize(
    ("mode", "amount", "width", "expected"),
    [
        ("down", 3, 32, lambda i: i + 3 if i % 32 < 29 else i),
        ("up", 3, 8, lambda i: i - 3 if i % 8 >= 3 else i),
        ("xor", 5, 32, lambda i: i ^ 5),
        ("xor", 9, 8, lambda i: i),
        ("idx", 2, 16, lambda i: i // 16 * 16 + 2),
        ("idx", 16, 16, lambda i: i),
        ("down", -1, 32, lambda i: i - 1 if i % 32 else i),
    ],
)
def test_shuffles(mode: str, amount: int, width: int, expected: Callable[[int], int]) -> None:
    got = on_lanes(lambda b, i: b.shuffle(i, b.const(amount), mode, width))
    assert got == [expected(i) if expected(i) // width == i // width else i for i in range(64)]


def test_a_shuffle_from_an_inactive_or_missing_lane_gives_the_lanes_own_value() -> None:
    def build(b: Writer, i: Value) -> Value:
        def side() -> tuple[Value, ...]:
            return (b.shuffle(i, b.const(1), "down", 32),)

        return b.branch(b.compare("lt", i, b.const(20)), side, lambda: (b.const(-1),))[0]

    assert on_lanes(build, 40) == [*range(1, 20), 19, *[-1] * 20]
    assert on_lanes(lambda b, i: b.shuffle(i, b.const(1), "down", 32), 40) == [
        *range(1, 32), 31, *range(33, 40), 39,
    ]  # fmt: skip


def test_loops_that_count_down_or_not_at_all() -> None:
    def count(step: int) -> list[int]:
        def build(b: Writer, i: Value) -> Value:
            bounds = (i, b.const(3), b.const(step))

            def body(_: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
                return (b.value("add", carried[0], b.const(1)),)

            return b.trips(bounds, (b.const(0),), body)[0]

        return on_lanes(build, 8)

    assert count(1) == [3, 2, 1, 0, 0, 0, 0, 0]
    assert count(-2) == [0, 0, 0, 0, 1, 1, 2, 2]
    assert count(0) == [0] * 8


def test_collatz_with_a_while() -> None:
    def build(b: Writer, i: Value) -> Value:
        one, two = b.const(1), b.const(2)

        def step(carried: tuple[Value, ...]) -> tuple[Value, ...]:
            n, count = carried
            (after,) = b.branch(
                b.compare("eq", b.value("mod", n, two), one),
                lambda: (b.value("add", b.value("mul", n, b.const(3)), one),),
                lambda: (b.value("floordiv", n, two),),
            )
            return after, b.value("add", count, one)

        start = b.value("add", i, one)
        return b.repeat((start, b.const(0)), lambda carried: b.compare("gt", carried[0], one), step)[1]

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    assert on_lanes(build) == [steps(i + 1) for i in range(64)]
