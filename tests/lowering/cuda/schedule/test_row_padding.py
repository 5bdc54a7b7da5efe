"""Which arrays the launcher copies so that their rows are aligned."""

import pytest

from lowering.cuda.cases import plan_of
from support.builder import Builder
from support.product_programs import matrix_product
from support.simulate import compile_cuda, compile_ptx
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program

TILE = (128, 128, 64)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_both_factors_of_a_product_go_through_copies(turned: tuple[bool, bool]):
    program = matrix_product(TILE, aligned=False, turned=turned)
    plan, _ = plan_of(program)
    assert plan is not None
    assert (len(plan.padded_rows), [len(ring.loads) for ring in plan.rings], plan.copies) == (2, [2], [])
    maps = [slot for slot in compile_ptx(program).slots if slot.tensor_map is not None]
    assert [(slot.parameter, slot.tensor_map.padded_rows) for slot in maps] == [(0, True), (1, True)]


def test_aligned_arrays_are_read_as_they_are():
    plan, _ = plan_of(matrix_product(TILE))
    assert plan is not None
    assert not plan.padded_rows


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_only_where_there_is_a_copy_engine(arch: str):
    plan, _ = plan_of(matrix_product(TILE, aligned=False), arch)
    assert plan is not None
    assert not plan.padded_rows


def test_small_teams_copy_by_themselves():
    plan, _ = plan_of(matrix_product((32, 64, 64), aligned=False))
    assert plan is not None
    assert not plan.padded_rows


def test_the_option_leaves_it_to_the_team():
    plan, _ = plan_of(matrix_product(TILE, aligned=False, pad_rows=False))
    assert plan is not None
    assert (plan.padded_rows, len(plan.copies)) == (set(), 1)


def one_factor(*, each: bool) -> Program:
    """C[m] = A[m] B, or with `each` A[m] B[m], with one range over groups of rows."""
    b = Builder("product")
    a = b.array("A", bf16, "M", 64)
    w = b.array("B", bf16, "K", 65)
    c = b.array("C", f32, "M", 64, mutable=True)
    with b.loop(b.const(0), b.dim("M"), b.const(64), kind="tile", names=("m",)) as m:
        left = b.load(a, [m.index, b.const(0)], [64, 64])
        right = b.load(w, [m.index if each else b.const(0), b.const(0)], [64, 64])
        b.store(c, b.dot(left, right, b.full(b.const(0.0, f32), 64, 64)), [m.index, b.const(0)], [64, 64])
    return b.program()


def test_elements_that_one_group_reads_are_not_copied():
    for each, count in ((True, 0), (False, 2)):
        plan, _ = plan_of(one_factor(each=each))
        assert plan is not None
        assert len(plan.padded_rows) == count


def test_the_levels_say_so():
    levels = compile_cuda(matrix_product(TILE, aligned=False)).listings
    text = next(listing.text for listing in levels if listing.stage == "cuda-pad-rows")
    assert text.count("padded_rows before the kernel") == 2
