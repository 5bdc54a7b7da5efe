"""Factors that begin anywhere, run by the machine that executes PTX, which faults where an address is not aligned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.ptx_machine import parse
from support.shifted_products import BEFORE, Case, Shape, Shifts, arguments, expected, shifted
from support.simulate import compile_ptx, launch
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.program.program import Program

SMALL: Shape = (32, 32, 32)


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype.numpy)


def check(shifts: Shifts, arrays: list[np.ndarray], ends: Shape, s: int, program: Program, arch: str = "sm_80") -> None:
    """C is what NumPy makes of it but for the order of the sums, and nothing else is written."""
    a, b, c = arrays
    want = expected(shifts, a, b, c, ends, s, SMALL)
    launch(compile_ptx(program, arch), arguments(arrays, ends, s), seed=1)
    np.testing.assert_allclose(arrays[2].astype(np.float64), want, rtol=0, atol=2e-5 * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("shift", [*range(9), -1, -3, -8, 40])
def test_right_factors_of_any_shift(shift: int):
    shifts = Shifts(right="s", left="s")
    arrays = [numbers(bf16, 40, 72), numbers(bf16, 72, 104), np.full((40, 104), 7, np.float32)]
    check(shifts, arrays, (40, 100, 40), shift, shifted(shifts, bf16, tile=SMALL))


def test_pieces_are_read_whole_and_shifted_into_place():
    """No element of the inside is read alone: what is read in 16 bits are pieces at the edges."""
    program = shifted(Shifts(right=1), bf16, tile=SMALL)
    names = [(one.name, one.parts) for one in parse(compile_ptx(program, "sm_80").code.rstrip(b"\0").decode()).code]
    assert any(name == "ld" and "global" in parts and "v4" in parts for name, parts in names)
    assert any(name == "prmt" for name, _ in names)


shifts_drawn = st.builds(
    Shifts,
    left=st.sampled_from([0, 1, 8, -1, 3, "s"]), right=st.sampled_from([0, 1, 4, 8, -5, "s"]),
    result=st.sampled_from([0, 1, 4, -1, -8, "s"]), turned=st.tuples(st.booleans(), st.booleans()),
    rows=st.tuples(*[st.integers(-2, 3)] * 3), first=st.sampled_from([0, 0, 1, 8]),
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(data=st.data(), shifts=shifts_drawn, dtype=st.sampled_from([bf16, f16, f32]), s=st.integers(-9, 20))
def test_any_shifts_of_any_arrays(data: st.DataObject, shifts: Shifts, dtype: DType, s: int):
    extents = data.draw(st.lists(st.integers(3, 9), min_size=6, max_size=6), label="extents in units of 8")
    odd = data.draw(st.tuples(*[st.booleans()] * 3), label="odd")
    shapes = [[8 * x for x in extents[n : n + 2]] for n in (0, 2, 4)]
    for shape, ragged in zip(shapes, odd, strict=True):
        shape[1] -= 3 * ragged
    arrays = [numbers(dtype, *shapes[0]), numbers(dtype, *shapes[1]), np.full(shapes[2], 7, np.float32)]
    aligned = (not odd[0], not odd[1], not odd[2])
    program = shifted(shifts, dtype, tile=SMALL, aligned=aligned)
    check(shifts, arrays, (40, 40, 40), s, program)


@pytest.mark.parametrize("case", BEFORE, ids=str)
def test_results_that_begin_before_their_array(case: Case):
    shapes = [(48, 56), (56, 48), (48, 56)]
    arrays = [numbers(case.dtype, *shape) for shape in shapes[:2]] + [np.full(shapes[2], 7, np.float32)]
    program = shifted(case.shifts, case.dtype, tile=SMALL)
    check(case.shifts, arrays, (40, 40, 40), case.s, program)


@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_large_parts_are_copied_some_rows_at_a_time(turned: tuple[bool, bool]):
    """A warp alone has 16 pieces of a factor to copy: four at a time."""
    tile = (32, 128, 32)
    shifts = Shifts(left=3, right="s", turned=turned)
    shapes = [(72, 40) if turned[0] else (40, 72), (136, 72) if turned[1] else (72, 136)]
    arrays = [numbers(bf16, *shapes[0]), numbers(bf16, *shapes[1]), np.full((40, 136), 7, np.float32)]
    a, b, c = arrays
    want = expected(shifts, a, b, c, (40, 136, 40), 5, tile)
    launch(
        compile_ptx(shifted(shifts, bf16, tile=tile, num_warps=1), "sm_80"), arguments(arrays, (40, 136, 40), 5), seed=1
    )
    np.testing.assert_allclose(arrays[2], want, rtol=0, atol=2e-5 * np.abs(want).max())
