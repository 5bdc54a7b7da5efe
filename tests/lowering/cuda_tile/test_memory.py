"""Windows: tiles of a view where that is proven, masked addresses elsewhere."""

import numpy as np
import pytest

from lowering.cuda_tile.compare import agree, names, normal, poison
from support import programs
from support.interpret_programs import Writer
from support.tile_cases import row_of, shift, strided
from support.tile_machine import lowered
from tessera.core.base.dtypes import bf16, boolean, f32, i64
from tessera.core.program.program import Domain


def test_aligned_windows_are_tiles_of_a_view():
    found = names(lowered(programs.tile_copy(128))[1])
    assert found.count("load_view_tko") == found.count("store_view_tko") == 1
    assert "load_ptr_tko" not in found


def test_a_view_is_made_once_in_front_of_the_loop():
    entry = lowered(programs.accumulate(16, 8, 16))[1]
    outside = [op.name for op in entry.body.instructions]
    assert outside.count("make_partition_view") == 3
    assert names(entry).count("make_partition_view") == 3


def test_other_windows_are_addressed_one_by_one():
    assert "load_view_tko" not in names(lowered(shift())[1])
    assert "load_view_tko" not in names(lowered(programs.tile_copy(100))[1])


@pytest.mark.parametrize("start", [-5, -1, 0, 3, 60, 64, 70, 1 << 40, -(1 << 40)])
def test_a_window_anywhere(start: int):
    b = Writer("anywhere")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    at = b.scalar("at", i64)
    b.store(y, b.load(x, [at], [12]), [b.value("sub", at, b.const(2))], [12])
    agree(b.program(), [normal(64), normal(64, seed=1), start])


def test_strides_and_dropped_axes():
    wide = [np.asfortranarray(normal(40, 20, seed=n)) for n in range(2)]
    agree(strided(), [*wide, 1.5], 3)
    for dtype in (boolean, bf16):
        values = normal(5, 24).astype(dtype.numpy)
        program = row_of(dtype)
        agree(program, [values, np.zeros((5, 24), dtype.numpy)], 6)


def test_single_elements():
    b = Writer("elements")
    x, out = b.array("x", boolean, "m", "n"), b.array("out", boolean, "m", "n", mutable=True)
    row, column = b.scalar("row", i64), b.scalar("column", i64)
    b.write(out, b.read(x, row, column), column, row)
    values = np.arange(12).reshape(3, 4) % 2 == 0
    for place in ((0, 0), (1, 2), (2, 3), (-1, 0), (3, 1)):
        agree(b.program(), [values, ~values, *place])


def test_the_whole_of_a_small_array():
    b = Writer("small")
    x, out = b.array("x", f32, 3, 5), b.array("out", f32, 3, 5, mutable=True)
    zero = b.const(0)
    b.store(out, b.load(x, [zero, zero], [3, 5]), [zero, zero], [3, 5])
    program = b.program(domain=Domain("single"))
    agree(program, [normal(3, 5), poison(3, 5)])
