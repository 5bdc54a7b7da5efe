"""Which values depend on a lane."""

from support.interpret_programs import Writer
from tessera.core.base.dtypes import f32
from tessera.core.program.program import Value
from tessera.runtime.interpret.uniform import varying_values

Values = tuple[Value, ...]


def test_ids_and_what_is_made_of_them() -> None:
    b = Writer("ids")
    x = b.array("x", f32, "n")
    ids = {of: b.id(of) for of in ("lane", "thread", "lane_in_warp", "warp", "group", "group_lanes", "grid_groups")}
    made = b.value("add", ids["lane"], ids["group"])
    read, uniform = b.read(x, made), b.read(x, ids["group"])
    varying = varying_values(b.program())
    assert {name for name, value in ids.items() if value in varying} == {"lane", "thread", "lane_in_warp", "warp"}
    assert {made, read} <= varying
    assert uniform not in varying


def test_a_branch_on_a_lane_makes_its_results_vary() -> None:
    b = Writer("branches")
    one, two = b.const(1), b.const(2)
    lane, group = b.id("lane"), b.id("group")
    inside: list[Value] = []

    def side() -> Values:
        inside.append(b.value("add", one, two))
        return (inside[-1],)

    (apart,) = b.branch(b.compare("lt", lane, two), side, lambda: (two,))
    (together,) = b.branch(b.compare("lt", group, two), side, lambda: (two,))
    (mixed,) = b.branch(b.compare("lt", group, two), lambda: (lane,), lambda: (two,))
    varying = varying_values(b.program())
    assert {apart, mixed} <= varying
    assert varying.isdisjoint({together, *inside})


def test_loops_that_lanes_leave_apart() -> None:
    b = Writer("loops")
    zero, one, lane = b.const(0), b.const(1), b.id("lane")
    seen: list[Value] = []

    def body(index: Value, carried: Values) -> Values:
        seen.extend((index, *carried))
        return (b.value("add", carried[0], one),)

    (varying_upper,) = b.trips((zero, lane, one), (zero,), body)
    (varying_lower,) = b.trips((lane, b.const(9), one), (zero,), body)
    (uniform,) = b.trips((zero, b.const(9), one), (zero,), body)
    varying = varying_values(b.program())
    assert {varying_upper, varying_lower} <= varying
    assert uniform not in varying
    # Inside, all lanes that are still there count the same, unless they started differently.
    assert [value in varying for value in seen] == [False, False, True, False, False, False]


def test_a_carried_value_that_becomes_varying_on_the_second_trip() -> None:
    b = Writer("carry")
    zero, lane = b.const(0), b.id("lane")
    seen: list[Value] = []

    def body(_: Value, carried: Values) -> Values:
        seen.extend(carried)
        return carried[1], lane

    results = b.trips((zero, b.const(3), b.const(1)), (zero, zero), body)
    assert {*seen, *results} <= varying_values(b.program())


def test_while() -> None:
    b = Writer("whiles")
    zero, one, lane = b.const(0), b.const(1), b.id("lane")

    def step(carried: Values) -> Values:
        return (b.value("add", carried[0], one),)

    (together,) = b.repeat((zero,), lambda carried: b.compare("lt", carried[0], one), step)
    (apart,) = b.repeat((zero,), lambda carried: b.compare("lt", carried[0], lane), step)
    (own,) = b.repeat((lane,), lambda carried: b.compare("lt", carried[0], one), step)
    varying = varying_values(b.program())
    assert together not in varying
    assert {apart, own} <= varying
