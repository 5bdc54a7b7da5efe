"""Parts of arrays that begin anywhere, on hardware, at sizes that fill the card: against NumPy in f64.

At small sizes no kernel uses the copy engine, rings and persistent blocks as it does here.
"""

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from support.hardware import simulate
from support.shifted_products import BEFORE, TILE, Case, Shape, Shifts, arguments, expected
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.runtime.interpret.rounding import to_tf32

ENDS: Final[Shape] = (2048, 2048, 512)
"""256 blocks of 128 x 128, and eight steps of K."""
ERRORS: Final = {"bf16": 2e-5, "f16": 2e-5, "f32": 2e-6, "tf32": 2e-5}


def numbers(dtype: DType, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(dtype.numpy)


def beginning_anywhere(array: np.ndarray) -> np.ndarray:
    """The same numbers, an element behind where an array begins that has room for them."""
    room = np.zeros(array.size + 1, array.dtype)
    room[1:] = array.reshape(-1)
    return room[1:].reshape(array.shape)


def check(case: Case) -> None:
    """C is the product of what there is of A and B, and nothing is written beside it."""
    shifts, dtype, odd, ends = case.shifts, case.dtype, case.odd, case.ends
    m, n, k = ends
    shapes = [[k, m] if shifts.turned[0] else [m, k], [n, k] if shifts.turned[1] else [k, n], [m, n]]
    for shape, ragged in zip(shapes, odd, strict=True):
        shape[0] += 3
        shape[1] = -(-shape[1] // 16) * 16 + (29 if ragged else 32)
    a, b = (beginning_anywhere(x) if ragged else x for x, ragged in zip(
        (numbers(dtype, *shapes[0]), numbers(dtype, *shapes[1])), odd, strict=False))  # fmt: skip
    c = np.full(shapes[2], 7, case.result.numpy)
    left, right = (to_tf32(x) if case.compute else x for x in (a, b))
    want = expected(shifts, left, right, c, ends, case.s, case.tile)
    simulate(case.program(), arguments([a, b, c], ends, case.s))
    tolerance = ERRORS[case.compute or dtype.name] if case.result == f32 else 1e-2
    got = c.astype(np.float64)
    far = np.abs(got - want).max() / np.abs(want).max()
    assert far <= tolerance, f"{case}: off by {far:.2e}"
    untouched = want == 7
    assert (got[untouched] == 7).all()


CASES: Final[list[tuple[Shifts, int]]] = [
    (Shifts(), 0), (Shifts(left=1), 0), (Shifts(right=1), 0), (Shifts(result=1), 0), (Shifts(first=1), 0),
    (Shifts(left="s"), 1), (Shifts(right="s"), 1), (Shifts(right="s"), 2), (Shifts(right="s"), 8), (Shifts(right="s"), -3),
    (Shifts(result="s"), 3), (Shifts(rows=(1, 1, 1)), 0), (Shifts("s", "s", "s"), 5), (Shifts(left=8, right=16), 0),
    (Shifts(left=1, turned=(True, False)), 0), (Shifts(right=1, turned=(False, True)), 0),
    (Shifts(1, 3, 5, turned=(True, True)), 0), (Shifts(left=-1, right=-1), 0),
]  # fmt: skip
NUMBERS: Final[list[tuple[DType, str]]] = [(bf16, ""), (f16, ""), (f32, "tf32"), (f32, "")]


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "compute"), NUMBERS, ids=str)
@pytest.mark.parametrize(("shifts", "s"), CASES, ids=str)
def test_parts_that_begin_anywhere(shifts: Shifts, s: int, dtype: DType, compute: str):
    tile = (128, 128, 16) if dtype == f32 and not compute else TILE
    check(Case(shifts, dtype, compute, tile, s, ENDS, (False, False, False), f32))


@pytest.mark.gpu
@pytest.mark.parametrize("odd", [(True, False, False), (False, True, True), (True, True, True)], ids=str)
@pytest.mark.parametrize("shifts", [Shifts(), Shifts("s", "s", "s"), Shifts(right=1, first=1)], ids=str)
def test_rows_that_begin_anywhere_as_well(shifts: Shifts, odd: tuple[bool, bool, bool]):
    check(Case(shifts, bf16, "", TILE, 3, (2047, 2045, 509), odd, bf16))


@pytest.mark.gpu
@pytest.mark.parametrize("case", BEFORE, ids=str)
def test_results_that_begin_before_their_array(case: Case):
    check(case)


offsets: Any = st.one_of(st.sampled_from([0, 8, -8]), st.integers(-9, 17), st.just("s"))


@pytest.mark.gpu
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType] - its own iterator has no types
@given(
    shifts=st.builds(
        Shifts, left=offsets, right=offsets, result=offsets, turned=st.tuples(st.booleans(), st.booleans()),
        rows=st.tuples(*[st.integers(-2, 3)] * 3), first=st.sampled_from([0, 0, 1, 8]),
    ),
    s=st.integers(-9, 20), numbers=st.sampled_from(NUMBERS),
    tile=st.sampled_from([TILE, (128, 256, 64), (64, 128, 32), (64, 64, 64), (128, 128, 16)]),
    odd=st.sampled_from([(False, False, False)] * 3 + [(True, False, False), (False, True, False), (True, True, True)]),
    less=st.tuples(*[st.integers(0, 200)] * 3), result=st.sampled_from([f32, bf16]),
)  # fmt: skip
def test_any_parts(
    shifts: Shifts, s: int, numbers: tuple[DType, str], tile: Shape, odd: tuple[bool, bool, bool], less: Shape,
    result: DType,
):  # fmt: skip
    m, n, k = (end - part for end, part in zip(ENDS, less, strict=True))
    case = Case(shifts, *numbers, tile, s, (m, n, k), odd, result)
    note(f"{case}")  # a fault loses the context: what fails after it says nothing
    check(case)
