"""Two kernels on one call: agreement to the bit, and times in turns."""

from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera.profiling.comparison import agreement, compare

SOURCE = """
@kernel
def plain(x: f32[n], y: mut f32[n], z: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = x[t:t+64] * 3.1
        z[t:t+64] = z[t:t+64] + x[t:t+64]

@kernel
def other(x: f32[n], y: mut f32[n], z: mut f32[n]):
    for t in tile.range(n, step=32):
        y[t:t+32] = x[t:t+32] * 3.0 + x[t:t+32] * 0.1
        z[t:t+32] = z[t:t+32] + x[t:t+32]
"""


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


def test_what_differs_is_told_and_nothing_of_the_users_is_written(module: ModuleType):
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    y, z = np.full_like(x, 7), np.ones_like(x)
    found = compare(module.plain, module.other, (x, y, z))
    first, second = found.agreements
    one, two = x * np.float32(3.1), x * np.float32(3) + x * np.float32(0.1)
    expected = one != two
    assert (first.name, first.elements, first.equal) == ("y", 1000, int((~expected).sum()))
    assert first.largest == float(np.abs(one.astype(np.float64) - two.astype(np.float64)).max()) > 0
    assert second.same
    assert not found.same
    assert len(found.original) == len(found.other) >= 3
    assert found.ratio > 0
    assert (y == 7).all()
    assert (z == 1).all()
    assert str(found).startswith(f"y: {first.elements - first.equal} of 1,000 differ, by at most ")


def test_a_kernel_agrees_with_itself(module: ModuleType):
    x = np.array([np.nan, np.inf, -0.0, 1], np.float32)
    found = compare(module.plain, module.plain.variant(), (x, x.copy(), x.copy()))
    assert found.same
    assert str(found.agreements[0]) == "y: the same to the bit"


def test_values_that_are_not_finite():
    a, b = np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, 3.5])
    found = agreement("y", a, b)
    assert (found.equal, found.largest, found.relative, found.place) == (1, None, None, (1,))
    assert not found.agrees
    assert str(found) == "y: 2 of 3 differ, not finite at [1]"
    assert not agreement("y", np.array([0.0]), np.array([-0.0])).same


@pytest.mark.parametrize(("dtype", "apart", "agrees"), [("f4", 1e-5, True), ("f4", 1e-3, False), ("f2", 1e-2, True)])
def test_rounding_explains_small_differences_of_floats(dtype: str, apart: float, agrees: bool):
    a = np.array([8.0, np.inf, 4.0], dtype)
    b = a + np.array([0, 0, 8 * apart], dtype)
    assert agreement("y", a, b).agrees is agrees
    assert agreement("y", a, a).agrees
    assert agreement("y", np.array([0.0]), np.array([-0.0])).agrees
    assert not agreement("n", np.array([1000], np.int32), np.array([1001], np.int32)).agrees


@given(st.sampled_from(["f4", "f2", "bfloat16", "i4", "u1", "?"]), st.integers(0, 40), st.data())
def test_the_largest_difference_is_found(dtype: str, size: int, data: st.DataObject):
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    numbers = st.lists(st.integers(0, 1 if dtype == "?" else 50), min_size=size, max_size=size)
    a, b = (np.array(data.draw(numbers), np.int64).astype(kind) for _ in range(2))
    found = agreement("y", a, b)
    distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
    assert found.equal == int((distance == 0).sum())
    assert found.largest == (float(distance.max()) if size else 0.0)
    if not found.same:
        assert distance[found.place] == found.largest
