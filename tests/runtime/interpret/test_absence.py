"""What exists of tiles in the interpreter, rule by rule, against masked arrays of NumPy."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from frontend.kernels import array, build, scalar
from tessera.core.base.dtypes import f32, i64
from tessera.runtime.interpret.absence import Presence, axis_groups, partial, window
from tessera.runtime.interpret.run import run

X = np.arange(1, 31, dtype=np.float32).reshape(5, 6)
INSIDE = np.zeros((8, 8), np.bool_)
INSIDE[1:6, 0:6] = True
WINDOW = np.zeros((8, 8), np.float32)
WINDOW[1:6, 0:6] = X


def result(*lines: str, shape: tuple[int, ...] = (8, 8)) -> np.ndarray:
    """What a kernel makes of 99s; `t` is the window of x from (-1, 0) on, 8 by 8."""
    extents = ", ".join(map(str, shape))
    head = f"def k(x: f32[5, n], first: i64, y: mut f32[{extents}]):\n"
    text = head + "".join(f"    {line}\n" for line in ("t = x[first:first+8, 0:8]", *lines))
    out = np.full(shape, 99, np.float32)
    program = build(text, array(f32, 5, 6), scalar(i64), array(f32, *shape))
    run(program, [X.copy(), np.int64(-1), out], symbols={s.name: 6 for s in program.symbols})
    return out


def stored(values: ArrayLike, exists: ArrayLike) -> np.ndarray:
    return np.where(exists, values, 99).astype(np.float32)


def test_a_store_leaves_out_what_is_absent():
    assert np.array_equal(result("y[:] = t"), stored(WINDOW, INSIDE))


@pytest.mark.parametrize(
    ("text", "values"),
    [("t * 2.0 + 1.0", WINDOW * 2 + 1), ("tile.cast(tile.cast(t, i32), f32)", WINDOW), ("-t", -WINDOW),
     ("tile.fma(t, t, 1.0)", WINDOW * WINDOW + 1), ("t + tile.arange(8)", WINDOW + np.arange(8))],
)  # fmt: skip
def test_arithmetic_keeps_what_is_absent(text: str, values: np.ndarray):
    assert np.array_equal(result(f"y[:] = {text}"), stored(values, INSIDE))


def test_transposes_and_reshapes():
    assert np.array_equal(result("y[:] = t.T"), stored(WINDOW.T, INSIDE.T))
    assert np.array_equal(
        result("y[:] = tile.reshape(t + 1.0, (4, 16))", shape=(4, 16)), stored(WINDOW + 1, INSIDE).reshape(4, 16)
    )


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_see_what_exists(kind: str, axis: int):
    masked = np.ma.masked_array(-WINDOW - 50, ~INSIDE)
    want = getattr(masked, kind)(axis=axis).filled(99)
    assert np.array_equal(result(f"y[:] = tile.{kind}(-t - 50.0, axis={axis})", shape=(8,)), want)


def test_a_reduction_of_nothing_is_the_identity_and_exists():
    lines = ("u = x[0:8, n:n+8] * 2.0", "y[0] = tile.sum(u)", "y[1] = tile.max(u)", "y[2:10] = tile.sum(u, axis=1)")
    out = result(*lines, shape=(10,))
    assert out.tolist() == [0, -np.inf, 0, 0, 0, 0, 0, 99, 99, 99]  # rows 5 to 7 are absent


def test_softmax_along_a_ragged_axis():
    weights = np.exp(2 * X - 2 * X.max(1, keepdims=True))
    out = result("y[:] = tile.softmax(t * 2.0)")
    np.testing.assert_allclose(out[1:6, :6], weights / weights.sum(1, keepdims=True), rtol=1e-6)
    assert (out[~INSIDE] == 99).all()


def test_a_choice_exists_where_what_is_chosen_does():
    below = WINDOW < 10
    assert np.array_equal(result("y[:] = tile.where(t < 10.0, t, 5.0)"), stored(np.where(below, WINDOW, 5), INSIDE))
    chosen = np.broadcast_to(np.arange(8) < 4, (8, 8))
    out = result("y[:] = tile.where(tile.arange(8)[None, :] < 4, t, 5.0)")
    assert np.array_equal(out, stored(np.where(chosen, WINDOW, 5), INSIDE | ~chosen))


def test_valid_and_fill():
    assert np.array_equal(result("y[:] = tile.cast(tile.valid(t * 2.0), f32)"), INSIDE.astype(np.float32))
    assert np.array_equal(result("y[:] = tile.fill(t + 1.0, -3.0)"), np.where(INSIDE, WINDOW + 1, -3))
    assert np.array_equal(result("y[:] = tile.load(x[first:first+8, 0:8], other=7.0)"), np.where(INSIDE, WINDOW, 7))


def test_elements_that_are_read_alone():
    lines = (
        "y[0] = tile.load(x, index=(n, 0), other=7.0)",
        "y[1] = tile.load(x, index=(1, 2), other=7.0)",
        "y[2] = x[n, 0]",
    )
    assert result(*lines, shape=(3,)).tolist() == [7, 9, 0]


def test_products_take_what_is_absent_as_zero():
    out = result("y[:] = tile.dot(t + 1.0, t.T + 1.0)")
    a = np.where(INSIDE, WINDOW + 1, 0)
    assert np.array_equal(out, stored(a @ a.T, INSIDE[:, :1] & INSIDE[:, :1].T))


def test_sums_go_on_where_nothing_is_added():
    lines = ("a = tile.full((8, 8), 1.0)", "a += t", "b = tile.full((8, 8), 1.0)", "b = b + t")
    assert np.array_equal(result(*lines, "y[:] = a"), np.where(INSIDE, WINDOW + 1, 1))
    assert np.array_equal(result(*lines, "y[:] = b"), stored(WINDOW + 1, INSIDE))
    out = result("y[:] = tile.dot(t, t.T, tile.full((8, 8), 1.0))")
    assert np.array_equal(out, np.where(INSIDE, WINDOW, 0) @ np.where(INSIDE, WINDOW, 0).T + 1)


def test_a_row_that_is_outside_does_not_exist():
    assert result("y[:] = x[first, :]", shape=(6,)).tolist() == [99] * 6
    assert result("y[:] = tile.load(x[first, :], other=2.0)", shape=(6,)).tolist() == [2] * 6


def test_what_is_known_of_axes():
    found = window([-1, 3], (3, 4), (5, 5), ())
    assert found.flags.tolist() == [[False] * 4, [True, True, False, False], [True, True, False, False]]
    assert isinstance(partial(np.zeros(2), Presence((2,), True, (np.ones(2, np.bool_),))), np.ndarray)
    assert axis_groups((2, 1, 6, 5), (2, 3, 2, 5, 1)) == [([0], [0]), ([2], [1, 2]), ([3], [3])]
