"""Reads, writes and copies: masked edges, uniform statements once, copies that land at the barrier."""

import numpy as np
import pytest

from support.interpret_programs import Writer
from tessera.core.base.dtypes import f32, i64
from tessera.core.errors.catalog import LaneDependentTile
from tessera.core.program.program import Domain, Program, Value
from tessera.runtime.interpret.run import Report, run

LANES = Domain("lanes", ("n",))


def launch(program: Program, *arrays: np.ndarray, **symbols: int) -> Report:
    return run(program, arrays, symbols=symbols)


def test_lanes_read_zero_outside_and_write_nothing() -> None:
    b = Writer("edges")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    b.write(y, b.read(x, b.value("sub", i, b.const(2))), b.value("add", i, b.const(1)))
    out = np.full(6, 9, np.float32)
    report = launch(b.program(domain=LANES), np.arange(1, 7, dtype=np.float32), out, n=6)
    assert out.tolist() == [9, 0, 0, 1, 2, 3]
    assert report == Report(groups=1, lanes=6, reads=4, writes=5, bytes=36)


def test_the_group_reads_and_writes_once() -> None:
    b = Writer("count")
    total = b.array("total", i64, 1, mutable=True)
    zero = b.const(0)
    b.write(total, b.value("add", b.read(total, zero), b.const(1)), zero)
    b.write(total, b.read(total, b.const(-1)), b.const(1))
    b.id("lane")
    counts = np.array([5])
    report = launch(b.program(domain=LANES, group=(32,)), counts, n=96)
    assert counts.tolist() == [8]
    assert (report.groups, report.lanes, report.reads, report.writes) == (3, 96, 3, 3)


def test_indices_of_two_axes_and_strided_arrays() -> None:
    b = Writer("transposed")
    x = b.array("x", f32, "m", "n", contiguous=False)
    y = b.array("y", f32, "n", "m", mutable=True)
    i = b.id("thread")
    row, column = b.value("floordiv", i, b.dim("n")), b.value("mod", i, b.dim("n"))
    b.write(y, b.read(x, row, column), column, row)
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    view, out = base[::2, ::-2], np.zeros((4, 3), np.float32)
    launch(b.program(domain=Domain("lanes", (12,))), view, out, m=3, n=4)
    assert np.array_equal(out, view.T)


def test_tiles_with_dropped_axes_and_edges() -> None:
    b = Writer("tiles")
    x, y = b.array("x", f32, 4, 5), b.array("y", f32, 3, 4, mutable=True)
    row = b.load(x, [b.const(2), b.const(3)], [1, 4], dropped=(0,))
    b.store(y, row, [b.const(1), b.const(-1)], [1, 4], dropped=(0,))
    source, out = np.arange(20, dtype=np.float32).reshape(4, 5), np.full((3, 4), -1, np.float32)
    report = launch(b.program(), source, out)
    assert out.tolist() == [[-1] * 4, [14, -1, -1, -1], [-1] * 4]  # two of the row are absent, one has no place
    assert (report.reads, report.writes) == (2, 3)


def copying(waits: bool) -> np.ndarray:
    b = Writer("copy")
    x, y = b.array("x", f32, "n"), b.array("y", f32, 8, mutable=True)
    buffer = b.alloc(f32, 8)
    zero = b.const(0)
    b.copy(buffer, x, [b.const(5)], [8])
    if waits:
        b.barrier()
    b.store(y, b.load(buffer, [zero], [8]), [zero], [8])
    out = np.zeros(8, np.float32)
    launch(b.program(), np.arange(10, dtype=np.float32), out, n=10)
    return out


def test_a_copy_lands_at_the_barrier_and_not_before() -> None:
    assert copying(waits=True).tolist() == [5, 6, 7, 8, 9, 0, 0, 0]
    assert np.isnan(copying(waits=False)).all()


def test_a_copy_takes_what_is_there_when_it_starts() -> None:
    b = Writer("early")
    x, y = b.array("x", f32, 2, mutable=True), b.array("y", f32, 2, mutable=True)
    buffer = b.alloc(f32, 2)
    zero = b.const(0)
    b.copy(buffer, x, [zero], [2])
    b.store(x, b.full(b.const(7.0, f32), 2), [zero], [2])
    b.barrier()
    b.store(y, b.load(buffer, [zero], [2]), [zero], [2])
    arrays = np.ones(2, np.float32), np.zeros(2, np.float32)
    launch(b.program(), *arrays)
    assert [a.tolist() for a in arrays] == [[7, 7], [1, 1]]


def test_the_last_of_two_lanes_that_write_one_element_wins() -> None:
    b = Writer("last")
    y = b.array("y", i64, 2, mutable=True)
    i = b.id("thread")
    b.write(y, i, b.value("mod", i, b.const(2)))
    out = np.zeros(2, np.int64)
    launch(b.program(domain=Domain("lanes", (7,))), out)
    assert out.tolist() == [6, 5]


def test_buffers_chosen_by_each_lane() -> None:
    b = Writer("choice")
    y = b.array("y", f32, "n", mutable=True)
    i = b.id("lane")
    one, two = (b.alloc(f32, 8, name=name) for name in ("one", "two"))
    b.write(one, b.const(1.0, f32), i)
    b.write(two, b.const(2.0, f32), i)
    odd = b.compare("eq", b.value("mod", i, b.const(2)), b.const(1))
    chosen = b.select(odd, two, one)
    (again,) = b.branch(b.compare("lt", i, b.const(4)), lambda: (chosen,), lambda: (two,))
    b.write(again, b.value("add", b.read(again, i), b.cast(i, f32)), i)
    b.write(y, b.read(again, i), i)
    out = np.zeros(8, np.float32)
    launch(b.program(domain=LANES, group=(8,)), out, n=8)
    assert out.tolist() == [1, 3, 3, 5, 6, 7, 8, 9]


def lane_dependent(kind: str) -> Program:
    b = Writer("bad")
    x, y = b.array("x", f32, 16), b.array("y", f32, 16, mutable=True)
    i = b.id("lane")
    buffer = b.alloc(f32, 4)
    b.say("    the tile")

    def tile() -> tuple[Value, ...]:
        return (b.load(x, [b.const(0)], [4], name="t"),)

    {
        "load": lambda: b.load(x, [i], [4], name="t"),
        "store": lambda: b.store(y, b.full(b.const(0.0, f32), 4, name="t"), [i], [4]),
        "copy": lambda: b.copy(buffer, x, [i], [4]),
        "full": lambda: b.full(b.cast(i, f32), 4, name="t"),
        "branch": lambda: b.branch(b.compare("lt", i, b.const(3)), tile, tile),
    }[kind]()
    return b.program(domain=Domain("lanes", (16,)), group=(16,))


@pytest.mark.parametrize("kind", ["load", "store", "copy", "full", "branch"])
def test_a_tile_belongs_to_the_whole_group(kind: str) -> None:
    with pytest.raises(LaneDependentTile) as caught:
        launch(lane_dependent(kind), np.ones(16, np.float32), np.zeros(16, np.float32))
    assert "would be different for each lane" in caught.value.message
    assert caught.value.span.line == 2
