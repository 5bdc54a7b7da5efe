"""Each finding names both lines, the lanes and the elements; right kernels are left in peace."""

from collections.abc import Callable

import numpy as np
import pytest

from support import programs
from support.interpret_programs import Writer
from support.sanitized import LANES, Kernel, finding, text
from tessera.core.base.dtypes import f32
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Program, Value
from tessera.runtime.interpret.run import run


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
