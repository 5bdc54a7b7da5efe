"""Each finding names both lines, the lanes and the elements; right kernels are left in peace."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support import programs
from support.interpret_programs import Writer
from tessera.core.base.dtypes import f32
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Domain, Program, Value
from tessera.runtime.interpret.run import run

LANES = 64


class Kernel(Writer):
    """x: f32[n], y: mut f32[n], smem of 64 f32, i = tile.linear_id()."""

    def __init__(self) -> None:
        super().__init__("kernel")
        self.x = self.array("x", f32, "n")
        self.y = self.array("y", f32, "n", mutable=True)
        self.say("    smem = tshared.alloc[f32](64)")
        self.smem = self.alloc(f32, LANES, name="smem")
        self.say("    i = tile.linear_id()")
        self.i = self.id("lane", name="i")

    def plus(self, value: Value, number: int) -> Value:
        return self.value("add", value, self.const(number))

    def fill(self) -> None:
        self.say("    smem[i] = x[i]")
        self.write(self.smem, self.read(self.x, self.i), self.i)

    def sync(self) -> None:
        self.say("    tbarrier()")
        self.barrier()

    def done(self) -> Program:
        return self.program(domain=Domain("lanes", ("n",)), group=(LANES,))


def finding(program: Program, groups: int = 1, n: int = LANES, **options: Any) -> TesseraError:
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    with pytest.raises(TesseraError) as caught:
        run(program, [x, y], symbols={"n": n}, grid=(groups,), sanitize=True, **options)
    assert not y.any(), "a finding must leave the output as it was"
    return caught.value


def text(program: Program, **options: Any) -> str:
    return str(finding(program, **options))


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


def test_divergent_barrier() -> None:
    b = Kernel()
    b.say("    if i < 16:")
    with b.when(b.compare("lt", b.i, b.const(16))):
        b.say("        tbarrier()")
        b.barrier()
    assert (
        text(b.done())
        == """\
TSR-E503 not every lane reaches the barrier: only lanes 0 to 15 of 64 reach this tbarrier()
  --> Cell In[1], line 5, column 9
   5 |         tbarrier()
     |         ^^^^^^^^^^
  note: lanes 16 to 63 do not take this branch
  --> Cell In[1], line 4, column 5
   4 |     if i < 16:
     |     ^^^^^^^^^^
  try: move tbarrier() to where every lane of the group comes by, e.g. after the `if`"""
    )


def test_barrier_in_a_loop_that_lanes_leave_apart() -> None:
    b = Kernel()
    b.say("    for k in range(i, 65, 64):")

    def body(_: Value, __: tuple[Value, ...]) -> tuple[Value, ...]:
        b.sync()
        return ()

    b.trips((b.i, b.const(65), b.const(64)), (), body)
    error = finding(b.done())
    assert isinstance(error, catalog.DivergentBarrier)
    assert error.message == "only lane 0 of 64 reaches this tbarrier()"
    assert error.notes[0].message == "lanes 1 to 63 are no longer in this loop"


def test_barrier_under_a_uniform_condition_is_fine() -> None:
    b = Kernel()
    b.fill()
    with b.when(b.compare("eq", b.id("group"), b.const(0))):
        b.sync()
        b.write(b.y, b.read(b.smem, b.value("sub", b.const(63), b.i)), b.i)
    x, y = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
    run(b.done(), [x, y], symbols={"n": LANES}, sanitize=True)
    assert np.array_equal(y, x[::-1])


def test_out_of_bounds_read_and_write() -> None:
    b = Kernel()
    b.say("    y[i] = x[i + 1]")
    b.write(b.y, b.read(b.x, b.plus(b.i, 1)), b.i)
    assert (
        text(b.done())
        == """\
TSR-E504 index out of bounds: lane 63 reads x[64], but x has n = 64 elements
  --> Cell In[1], line 4, column 5
   4 |     y[i] = x[i + 1]
     |     ^^^^^^^^^^^^^^^
  try: guard it: `if index < n:` (without the sanitizer the read gives 0)"""
    )
    b = Kernel()
    b.say("    y[i - 3] = 1.0")
    b.write(b.y, b.const(1.0, f32), b.plus(b.i, -3))
    error = finding(b.done())
    assert error.message == "lane 0 writes y[-3], but y has n = 64 elements"
    assert "guard it: `if index >= 0:` (without the sanitizer the write does nothing)" in error.hint


def test_out_of_bounds_by_the_group_names_the_shape() -> None:
    b = Writer("corner")
    a = b.array("A", f32, 4, 5)
    y = b.array("y", f32, 1, mutable=True)
    b.say("    y[0] = A[3, 5]")
    b.write(y, b.read(a, b.const(3), b.const(5)), b.const(0))
    with pytest.raises(catalog.OutOfBounds, match=r"the group reads A\[3, 5\], but A has shape \(4, 5\)"):
        run(b.program(), [np.ones((4, 5), np.float32), np.zeros(1, np.float32)], symbols={}, sanitize=True)


def test_tile_edges_are_fine_in_arrays_but_not_in_shared_memory() -> None:
    b = Kernel()
    b.store(b.y, b.load(b.x, [b.const(40)], [LANES]), [b.const(0)], [LANES])
    y = np.zeros(LANES, np.float32)
    run(b.done(), [np.ones(LANES, np.float32), y], symbols={"n": LANES}, sanitize=True)
    assert y.sum() == LANES - 40
    b = Kernel()
    b.fill()
    b.sync()
    b.say("    y[:] = smem[8:72]")
    b.store(b.y, b.load(b.smem, [b.const(8)], [LANES]), [b.const(0)], [LANES])
    assert finding(b.done()).message == "the group reads smem[64], but smem has 64 elements"


def test_uninitialised_read() -> None:
    b = Kernel()
    b.say("    if i < 60: smem[i] = x[i]")
    with b.when(b.compare("lt", b.i, b.const(60))):
        b.write(b.smem, b.read(b.x, b.i), b.i)
    b.sync()
    b.say("    y[i] = smem[i]")
    b.write(b.y, b.read(b.smem, b.i), b.i)
    assert (
        text(b.done())
        == """\
TSR-E505 uninitialised shared memory: lane 60 reads smem[60] here, which nothing has written
  --> Cell In[1], line 6, column 5
   6 |     y[i] = smem[i]
     |     ^^^^^^^^^^^^^^
  try: write all of smem first (shared memory does not start at 0), then tbarrier()"""
    )


def test_shared_memory_is_new_in_each_group() -> None:
    b = Kernel()
    b.say("    if group_linear_id() == 0: smem[i] = x[i]")
    with b.when(b.compare("eq", b.id("group"), b.const(0))):
        b.write(b.smem, b.read(b.x, b.i), b.i)
    b.say("    y[i] = smem[i]")
    b.write(b.y, b.read(b.smem, b.i), b.i)
    error = finding(b.done(), groups=2)
    assert error.message == "lane 0 of group 1 reads smem[0] here, which nothing has written"


def in_flight(use: Callable[[Kernel], None]) -> TesseraError:
    b = Kernel()
    b.say("    cp_async.shared.global(smem, x[0:64])")
    b.copy(b.smem, b.x, [b.const(0)], [LANES])
    use(b)
    return finding(b.done())


def test_copy_in_flight() -> None:
    def use(b: Kernel) -> None:
        b.say("    y[i] = smem[i]")
        b.write(b.y, b.read(b.smem, b.i), b.i)

    assert (
        str(in_flight(use))
        == """\
TSR-E506 copy still in flight: lane 0 reads smem[0] here, while the copy may still be filling it
  --> Cell In[1], line 5, column 5
   5 |     y[i] = smem[i]
     |     ^^^^^^^^^^^^^^
  note: the copy of smem[0] starts here
  --> Cell In[1], line 4, column 5
   4 |     cp_async.shared.global(smem, x[0:64])
     |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  try: wait for the copy with tbarrier() first"""
    )


def test_second_copy_into_the_same_buffer() -> None:
    def use(b: Kernel) -> None:
        b.say("    cp_async.shared.global(smem, x[1:65])")
        b.copy(b.smem, b.x, [b.const(1)], [LANES])

    assert in_flight(use).message == "another copy writes smem[0] here, while the copy may still be filling it"


def test_writing_the_source_of_a_copy() -> None:
    b = Kernel()
    b.say("    cp_async.shared.global(smem, y[0:64])")
    b.copy(b.smem, b.y, [b.const(0)], [LANES])
    b.say("    y[i] = 1.0")
    b.write(b.y, b.const(1.0, f32), b.i)
    error = finding(b.done())
    assert isinstance(error, catalog.CopyInFlight)
    assert error.message == "lane 0 writes y[0] here, while the copy may still be reading it"


def test_copy_over_what_lanes_still_read() -> None:
    b = Kernel()
    b.fill()
    b.sync()
    b.say("    y[i] = smem[i]")
    b.write(b.y, b.read(b.smem, b.i), b.i)
    b.say("    cp_async.shared.global(smem, x[0:64])")
    b.copy(b.smem, b.x, [b.const(0)], [LANES])
    error = finding(b.done())
    assert isinstance(error, catalog.MissingBarrier)
    assert error.message == "the copy writes smem[0] here, which lane 0 reads, with no tbarrier() between"


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


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


RIGHT: list[tuple[Program, list[np.ndarray], dict[str, int]]] = [
    (programs.saxpy(), [random(1000), random(1000)], {"n": 1000}),
    (programs.group_sum(), [random(1000), zeros(3)], {"n": 1000, "grid_groups": 3}),
    (programs.tile_copy(), [random(300), zeros(300)], {"n": 300}),
    (
        programs.matmul(8, 8, 8),
        [random(20, 17), random(17, 9), zeros(20, 9)],
        {"M": 20, "N": 9, "K": 17},
    ),
    (programs.softmax_rows(16), [random(10, 16), zeros(10, 16)], {"R": 10}),
    (programs.warp_reduce(), [random(256), zeros(8)], {"n": 256, "w": 8}),
    (programs.pipeline(8, 8, 4), [random(8, 40), random(40, 4), zeros(8, 4)], {"K": 40}),
    (programs.accumulate(8, 8, 4), [random(8, 40), random(40, 4), zeros(8, 4)], {"K": 40}),
]


@pytest.mark.parametrize(("program", "arrays", "symbols"), RIGHT, ids=[case[0].name for case in RIGHT])
def test_no_finding_in_right_kernels(program: Program, arrays: list[np.ndarray], symbols: dict[str, int]) -> None:
    plain, watched = [a.copy() for a in arrays], [a.copy() for a in arrays]
    scalars = [2.0] * (len(program.parameters) - len(arrays))
    grid = (symbols["grid_groups"],) if "grid_groups" in symbols else None
    run(program, [*plain, *scalars], symbols=symbols, grid=grid)
    run(program, [*watched, *scalars], symbols=symbols, grid=grid, sanitize=True)
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))


def axpy(missing_barrier: bool = False) -> Program:
    """The guide's `axpy_tiled`: two buffers that swap, copies ahead, a uniform read-modify-write."""
    b = Writer("axpy_tiled")
    x, y = b.array("X", f32, "m"), b.array("Y", f32, "m", mutable=True)
    alpha = b.scalar("alpha", f32)
    buffers = (b.alloc(f32, 8, name="s0"), b.alloc(f32, 8, name="s1"))
    b.say("    for t in tile.range(m, step=8, prefetch=2):")

    def body(t: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        s0, s1 = carried
        b.say("        cp_async.shared.global(s1, X[t:t+8])")
        b.copy(s1, x, [t], [8])
        if not missing_barrier:
            b.say("        tbarrier()")
            b.barrier()
        b.say("            Y[t-8+i] = alpha * s0[i] + Y[t-8+i]")
        with b.when(b.compare("gt", t, b.const(0))):

            def step(i: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
                place = b.value("add", b.value("sub", t, b.const(8)), i)
                product = b.value("mul", alpha, b.read(s0, i))
                b.write(y, b.value("add", product, b.read(y, place)), place)
                return ()

            b.trips((b.const(0), b.const(8), b.const(1)), (), step)
        return s1, s0

    b.trips((b.const(0), b.dim("m"), b.const(8)), buffers, body, kind="tile")
    return b.program()


def test_swapped_buffers_and_uniform_read_modify_write_are_fine() -> None:
    x, y = random(40), random(40)[::-1].copy()
    expected = y.copy()
    expected[:32] = np.float32(2) * x[:32] + y[:32]
    run(axpy(), [x, y, 2.0], symbols={"m": 40}, sanitize=True)
    assert np.array_equal(y, expected)


def test_swapped_buffers_without_the_barrier() -> None:
    with pytest.raises(catalog.CopyInFlight, match=r"the group reads s1\[0\] here, while the copy may still"):
        run(axpy(missing_barrier=True), [random(40), random(40), 2.0], symbols={"m": 40}, sanitize=True)
