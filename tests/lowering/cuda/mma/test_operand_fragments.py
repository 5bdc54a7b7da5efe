"""Parts of factors for the tensor cores: without bank conflicts, whichever way a factor lies."""

import re

import pytest

from lowering.cuda.cases import plan_of
from support.product_programs import matrix_product
from support.simulate import compile_ptx, ptx_of
from tessera.core.base.dtypes import f32
from tessera.core.layouts import bank_conflicts, coordinates, swizzled

ORDERS = [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize("turned", ORDERS, ids=str)
def test_f32_across_k_are_read_without_bank_conflicts(turned: tuple[bool, bool]):
    """4 of K by 8 rows or columns, in panels of 128 bytes, of the factor that lies across."""
    _, layouts = plan_of(matrix_product((128, 128, 32), f32, turned=turned, compute="tf32"), "sm_80")
    (layout,) = layouts["tessera.dot"]
    for axis, across in enumerate((turned[0], not turned[1])):
        bases = layout.lanes[2:] if axis == 0 else (layout.registers[0], *layout.lanes[:2])
        steps = [coordinates(basis, layout.shape)[axis] for basis in bases]
        assert steps == ([1, 2, 16] if across else [1, 2, 4])
        if across:
            places = [
                swizzled(lane % 4 * 128 + 4 * sum(s for bit, s in enumerate(steps) if lane >> 2 + bit & 1), 128)
                for lane in range(32)
            ]
            assert bank_conflicts(places, 4) == 1


@pytest.mark.parametrize(
    ("turned", "matrices", "words"), [((False, True), 12, 0), ((False, False), 4, 32), ((True, True), 8, 16)]
)
def test_matrices_where_k_is_contiguous_and_words_elsewhere(turned: tuple[bool, bool], matrices: int, words: int):
    """A warp has 32 x 64 sums, and 16 of K: 2 x 2 blocks of the left factor, 8 x 2 of the right one."""
    text = ptx_of(compile_ptx(matrix_product((64, 128, 16), f32, turned=turned, compute="tf32"), "sm_80"))
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.shared", text)) == matrices
    assert len(re.findall(r"ld\.shared\.b32", text)) == words
