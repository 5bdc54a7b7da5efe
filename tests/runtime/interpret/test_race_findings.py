"""Races and missing barriers: each finding names both lines, the lanes and the elements."""

import numpy as np
import pytest

from support.interpret_programs import Writer
from support.sanitized import LANES, Kernel, finding, text
from tessera.core.base.dtypes import f32
from tessera.core.errors import catalog
from tessera.core.program.program import Domain, Value
from tessera.runtime.interpret.run import run


def test_missing_barrier_names_both_lines() -> None:
    b = Kernel()
    b.fill()
    b.say("    y[i] = smem[(i + 1) % 64]")
    b.write(b.y, b.read(b.smem, b.value("mod", b.plus(b.i, 1), b.const(LANES))), b.i)
    assert (
        text(b.done())
        == """\
TSR-E502 missing barrier: lane 0 reads smem[1] here, which lane 1 writes, with no tbarrier() between
  --> Cell In[1], line 5, column 5
   5 |     y[i] = smem[(i + 1) % 64]
     |     ^^^^^^^^^^^^^^^^^^^^^^^^^
  note: lane 1 writes smem[1] here
  --> Cell In[1], line 4, column 5
   4 |     smem[i] = x[i]
     |     ^^^^^^^^^^^^^^
  try: put tbarrier() between the two, where every lane of the group reaches it"""
    )


def test_group_sum_without_its_barrier() -> None:
    b = Kernel()
    b.fill()
    b.say("    if i == 0:")
    condition = b.compare("eq", b.i, b.const(0))
    with b.when(condition):
        b.say("        y[0] = reduce_sum(smem)")
        b.write(b.y, b.reduce(b.load(b.smem, [b.const(0)], [LANES])), b.const(0))
    error = finding(b.done())
    assert isinstance(error, catalog.MissingBarrier)
    assert error.message == "lane 0 reads smem[1] here, which lane 1 writes, with no tbarrier() between"
    assert (error.span.line, error.notes[0].span.line) == (6, 4)


def test_reading_what_the_next_trip_overwrites() -> None:
    b = Kernel()
    b.say("    for k in range(2):")

    def body(_: Value, __: tuple[Value, ...]) -> tuple[Value, ...]:
        b.fill()
        b.sync()
        b.say("        y[i] = smem[63 - i]")
        b.write(b.y, b.read(b.smem, b.value("sub", b.const(63), b.i)), b.i)
        return ()

    b.trips((b.const(0), b.const(2), b.const(1)), (), body)
    error = finding(b.done())
    assert isinstance(error, catalog.MissingBarrier)
    assert error.message == "lane 0 writes smem[0] here, which lane 63 reads, with no tbarrier() between"
    assert (error.span.line, error.notes[0].span.line) == (5, 7)


def test_one_statement_against_itself_in_a_loop() -> None:
    b = Kernel()
    b.say("    for k in range(2):")

    def body(index: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
        b.say("        smem[(i + k) % 64] = 1.0")
        place = b.value("mod", b.value("add", b.i, index), b.const(LANES))
        b.write(b.smem, b.const(1.0, f32), place)
        return ()

    b.trips((b.const(0), b.const(2), b.const(1)), (), body)
    error = finding(b.done())
    assert error.message == "lane 0 writes smem[1] here, which lane 1 writes, with no tbarrier() between"
    assert error.notes[0].message == "lane 1 writes smem[1] here on an earlier trip of the loop"
    assert error.hint == "put tbarrier() into the loop, where every lane of the group reaches it"


def test_race_of_all_lanes_on_one_element() -> None:
    b = Kernel()
    b.say("    y[i // 2] = x[i]")
    b.write(b.y, b.read(b.x, b.i), b.value("floordiv", b.i, b.const(2)))
    assert (
        text(b.done())
        == """\
TSR-E501 race between lanes: lane 0 and lane 1 both write y[0] here
  --> Cell In[1], line 4, column 5
   4 |     y[i // 2] = x[i]
     |     ^^^^^^^^^^^^^^^^
  note: lane 0 writes y[0] here
  --> Cell In[1], line 4, column 5
   4 |     y[i // 2] = x[i]
     |     ^^^^^^^^^^^^^^^^
  note: lane 1 writes y[0] here
  --> Cell In[1], line 4, column 5
   4 |     y[i // 2] = x[i]
     |     ^^^^^^^^^^^^^^^^
  try: give each lane its own element, or let one lane write: `if tile.linear_id() == 0:`"""
    )


def test_uniform_write_where_some_lanes_are() -> None:
    b = Kernel()
    b.say("    if i < 16:")
    with b.when(b.compare("lt", b.i, b.const(16))):
        b.say("        y[5] = 1.0")
        b.write(b.y, b.const(1.0, f32), b.const(5))
    error = finding(b.done())
    assert isinstance(error, catalog.Race)
    assert error.message == "lane 0 and lane 1 both write y[5] here"


def test_race_on_a_global_array() -> None:
    b = Kernel()
    b.say("    y[i] = x[i]")
    b.write(b.y, b.read(b.x, b.i), b.i)
    b.say("    y[i] = y[63 - i]")
    b.write(b.y, b.read(b.y, b.value("sub", b.const(63), b.i)), b.i)
    error = finding(b.done())
    assert isinstance(error, catalog.Race)
    assert error.message == "lane 0 reads y[63] here, which lane 63 writes, and nothing orders the two"
    assert (error.span.line, error.notes[0].span.line) == (5, 4)
    assert error.hint == "put tbarrier() between the two, where every lane of the group reaches it"


def test_race_without_groups_suggests_them() -> None:
    b = Writer("shift")
    y = b.array("y", f32, "n", mutable=True)
    b.say("    y[i] = y[i + 1]")
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.const(LANES - 1))):
        b.write(y, b.read(y, b.value("add", i, b.const(1))), i)
    program = b.program(domain=Domain("lanes", ("n",)))
    with pytest.raises(catalog.Race) as caught:
        run(program, [np.ones(LANES, np.float32)], symbols={"n": LANES}, sanitize=True)
    assert caught.value.message == "lane 1 writes y[1] here, which lane 0 reads, and nothing orders the two"
    assert caught.value.hint == "give each lane its own element, or say tile[...] and use tbarrier()"


def test_race_between_groups() -> None:
    b = Kernel()
    b.say("    y[i] = x[i]")
    b.write(b.y, b.read(b.x, b.i), b.i)
    error = finding(b.done(), groups=2)
    assert isinstance(error, catalog.Race)
    assert (
        error.message == "lane 0 of group 1 writes y[0] here, which lane 0 of group 0 writes; groups run in any order"
    )
    assert error.notes[0].message == "lane 0 of group 0 writes y[0] here"


def test_one_group_reads_what_another_writes() -> None:
    b = Kernel()
    b.say("    y[group * 64 + i] = y[0]")
    b.write(b.y, b.read(b.y, b.const(0)), b.id("thread"))
    error = finding(b.done(), groups=2, n=2 * LANES)
    # Within group 0 already: the group reads y[0] and lane 0 writes it.
    assert error.message == "lane 0 of group 0 writes y[0] here, which group 0 reads, and nothing orders the two"


@pytest.mark.parametrize("barriers", [0, 2])
def test_a_read_by_an_earlier_group_is_remembered(barriers: int) -> None:
    b = Kernel()
    b.say("    v = y[i % 2]")
    b.read(b.y, b.value("mod", b.i, b.const(2)))
    for _ in range(barriers):
        b.sync()
    b.say("    if group_linear_id() == 1: y[0] = 1.0")
    with b.when(b.compare("eq", b.id("group"), b.const(1))), b.when(b.compare("eq", b.i, b.const(0))):
        b.write(b.y, b.const(1.0, f32), b.const(0))
    error = finding(b.done(), groups=2)
    before = "group 0" if barriers else "group 1"
    assert isinstance(error, catalog.Race)
    assert error.notes[0].message == f"lane 62 of {before} reads y[0] here"


@pytest.mark.parametrize(("size", "distance", "fine"), [(8, 1, True), (8, 8, False), (16, 8, True), (64, 63, True)])
def test_group_sync_orders_its_own_lanes(size: int, distance: int, fine: bool) -> None:
    b = Kernel()
    b.fill()
    b.say("    group.sync()")
    b.op("group_sync", size=size)
    b.say("    y[i] = smem[i ^ distance]")
    b.write(b.y, b.read(b.smem, b.value("xor", b.i, b.const(distance))), b.i)
    if fine:
        x, y = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
        run(b.done(), [x, y], symbols={"n": LANES}, sanitize=True)
        assert np.array_equal(y, x[np.arange(LANES) ^ distance])
    else:
        assert finding(b.done()).message == (
            f"lane 0 reads smem[{distance}] here, which lane {distance} writes, with no tbarrier() between"
        )


def test_group_sync_that_half_a_subgroup_reaches() -> None:
    b = Kernel()
    with b.when(b.compare("lt", b.i, b.const(12))):
        b.say("        group.sync()")
        b.op("group_sync", size=8)
    assert finding(b.done()).message == "only lanes 0 to 11 of 64 reach this sync()"


def test_group_sync_of_whole_subgroups_is_fine_under_a_mask() -> None:
    b = Kernel()
    with b.when(b.compare("lt", b.i, b.const(16))):
        b.op("group_sync", size=8)
    run(b.done(), [np.ones(LANES, np.float32), np.zeros(LANES, np.float32)], symbols={"n": LANES}, sanitize=True)


def test_two_parameters_that_are_one_array() -> None:
    b = Kernel()
    b.say("    y[i] = x[63 - i]")
    b.write(b.y, b.read(b.x, b.value("sub", b.const(63), b.i)), b.i)
    both = np.ones(LANES, np.float32)
    with pytest.raises(catalog.Race, match=r"lane 0 writes y\[0\] here, which lane 63 reads"):
        run(b.done(), [both, both], symbols={"n": LANES}, sanitize=True)
