"""Rows that registers cannot hold: the report says so, with the line; smaller ones and kernels with lanes say nothing."""

import numpy as np
import pytest

import tessera
from support.product_programs import matrix_product
from support.simulate import compile_ptx
from tessera.core.base.dtypes import f32
from tessera.session.compiled import Compiled

SOFTMAX = """
@kernel
def rows_of(x: f32[rows, columns], y: mut f32[rows, columns]):
    for r in tile.range(rows, step=1):
        y[r, :] = tile.softmax(x[r, :])
"""


def _compiled(columns: int) -> Compiled:
    x = np.zeros((2, columns), np.float32)
    kernel = tessera.compile_source(SOFTMAX).rows_of
    return kernel.compile_quietly(x, x.copy(), target="cuda:sm_90a")


def _notes(columns: int) -> str:
    return " ".join(_compiled(columns).resources().notes)


def test_a_row_that_registers_cannot_hold_is_named_with_its_line_and_a_remedy():
    compiled = _compiled(50257)
    assert compiled.artifact.launch.threads == 1024
    notes = " ".join(compiled.resources().notes)
    assert "line 5): a tile of 50,257 elements is kept in memory on sm_90a, not in registers, because" in notes
    assert "try a loop over blocks of it, as the functions of tessera.ops do" in notes


@pytest.mark.parametrize("columns", [1000, 32768])
def test_rows_in_registers_need_no_remark(columns: int):
    assert "kept in memory" not in _notes(columns)


def test_sums_of_a_product_that_registers_cannot_hold_are_named_where_they_are_added_up():
    (remark,) = compile_ptx(matrix_product((512, 512, 16), f32, num_warps=4), "sm_90a").remarks
    assert remark.text.startswith("a tile of 262,144 elements is kept in memory on sm_90a")
    assert remark.span.line == 13  # the loop whose sums they are
