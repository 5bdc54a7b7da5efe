"""Results beside what is expected of them: arrays, functions, NumPy code."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.fake_cuda import FakeDriver, install
from tessera.core.errors.catalog import BadExpectation
from tessera.kernels.kernel import Kernel
from tessera.profiling.expected import wrong_outputs

Array = NDArray[np.float32]
TEXT = """
@kernel(target="interpret")
def both(x: f32[n], a: f32, y: mut f32[n], z: mut f32[n]):
    y[:] = a * x[:]
    z[:] = x[:] + 1.0

@kernel(target="interpret")
def shifted(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=4):
        y[t + 1 : t + 5] = x[t : t + 4]
"""
MODULE = tessera.compile_source(TEXT)
BOTH: Kernel = MODULE.both
SHIFTED: Kernel = MODULE.shifted


def arguments() -> tuple[Array, float, Array, Array]:
    x = np.arange(8, dtype=np.float32)
    return x, 3.0, np.zeros_like(x), np.zeros_like(x)


def writes(x: Array, a: float, y: Array, z: Array) -> None:
    y[:] = a * x
    z[:] = x + 1


X = arguments()[0]
RIGHT: dict[str, object] = {
    "by name": {"z": X + 1},
    "in order": (3 * X, X + 1),
    "a function that returns": lambda x, a, y, z: (a * x, x + 1),
    "a function that returns names": lambda x, a, y, z: {"y": a * x},
    "a function that writes": writes,
    "NumPy code": "y[:] = a * x\nz[:] = np.add(x, 1)",
    "NumPy code that binds": "y = a * x; z = x + 1",
    "other dtypes": {"y": (3 * X).astype(np.float64), "z": [1, 2, 3, 4, 5, 6, 7, 8]},
}  # fmt: skip


@pytest.mark.parametrize("how", RIGHT)
def test_right_results(how: str):
    values = arguments()
    assert wrong_outputs(BOTH, values, RIGHT[how]) == ()
    assert not values[2].any(), "the arguments stay as they are"
    assert not values[3].any()


def test_wrong_results_are_told_by_output():
    wrong = wrong_outputs(BOTH, arguments(), "y[:] = a * x; y[5] = 0; z[:] = x")
    assert [(each.name, each.count, each.index, each.value, each.expected) for each in wrong] == [
        ("y", 1, (5,), 15.0, 0.0), ("z", 8, (0,), 1.0, 0.0),
    ]  # fmt: skip


def test_one_output_takes_an_array_or_a_number():
    x = np.arange(8, dtype=np.float32)
    (wrong,) = wrong_outputs(SHIFTED, (x, np.full_like(x, 9.0)), np.roll(x, 1))
    assert (wrong.index, wrong.value, wrong.expected) == ((0,), 9.0, 7.0), "no tile writes it"
    (wrong,) = wrong_outputs(SHIFTED, (x, np.full_like(x, 9.0)), 9.0)
    assert wrong.count == 7
    expected = np.roll(x, 1)
    expected[0] = 9.0
    for alone in (expected, [expected], (expected,), expected.tolist(), {"y": expected}):
        assert wrong_outputs(SHIFTED, (x, np.full_like(x, 9.0)), alone) == ()


def test_code_is_compared_for_the_outputs_that_it_mentions():
    x, a, y, z = arguments()
    assert wrong_outputs(BOTH, (x, a, y, z), "y[:] = a * x") == ()
    assert wrong_outputs(BOTH, (0 * x, a, y, z), "np.copyto(y, 0)") == (), "nothing changes, and y is compared"
    (wrong,) = wrong_outputs(BOTH, (x, a, y, z), "np.copyto(y, 0)")
    assert (wrong.name, wrong.count) == ("y", 7)


def test_functions_that_write_say_what_all_outputs_are():
    def one(x: Array, a: float, y: Array, _z: Array) -> None:
        y[:] = a * x

    (wrong,) = wrong_outputs(BOTH, arguments(), one)
    assert (wrong.name, wrong.count) == ("z", 8)


WRONG: dict[str, tuple[object, str]] = {
    "another name": ({"w": X}, r"expect= has 'w', and both writes y, z"),
    "too few": ((X,), r"expect= gives 1, and both writes y, z"),
    "another shape": ({"y": np.zeros(3)}, r"expect= of y is 3, and y is 8"),
    "no numbers": ({"y": ["a"] * 8}, r"expect= of y holds <U1"),
    "complex numbers": ({"y": X + 1j}, r"expect= of y is complex, and y is float32"),
    "code without outputs": ("w = 2 * x", r"the code of expect= mentions none of what both writes: y, z"),
    "a function that does nothing": (lambda *_: None, r"the function of expect= returns None and changes none of y, z"),
}  # fmt: skip


@pytest.mark.parametrize("how", WRONG)
def test_what_fits_no_output(how: str):
    expect, message = WRONG[how]
    with pytest.raises(BadExpectation, match=message):
        wrong_outputs(BOTH, arguments(), expect)


def test_mistakes_of_the_users_code_are_the_users():
    def fails(*_: object) -> None:
        raise RuntimeError("mine")

    for expect, kind in (("y[:] = nothing", NameError), ("y[:] =", SyntaxError), (fails, RuntimeError)):
        with pytest.raises(kind):
            wrong_outputs(BOTH, arguments(), expect)


def test_profiles_say_whether_results_are_right():
    x = np.arange(4096, dtype=np.float32)
    kernel: Kernel = tessera.compile_source(TEXT.replace('(target="interpret")', "")).shifted
    profile: Callable[..., Any] = tessera.profile(kernel, expect=np.roll(x, 1))
    found = profile(x, np.zeros_like(x))
    assert [(each.index, each.expected) for each in found.wrong or ()] == [((0,), 4095.0)]
    assert dict(found.rows())["results"].startswith("y: 1 of 4,096 are not as expected, the first is y[0] = 0,")
    assert "RESULTS ARE WRONG" in repr(found)
    right = tessera.profile(kernel, expect="y[1:] = x[:-1]")(x, np.zeros_like(x))
    assert right.wrong == ()
    assert dict(right.rows())["results"] == "as expected"
    assert tessera.profile(kernel)(x, np.zeros_like(x)).wrong is None


def test_arrays_on_a_gpu_are_compared(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeDriver())
    x, y = np.arange(8, dtype=np.float32), np.full(8, 9.0, np.float32)
    right = np.roll(x, 1)
    right[0] = 9.0
    assert wrong_outputs(SHIFTED, (x, y), fake.device_array(right)) == ()
    assert wrong_outputs(SHIFTED, (x, y), [fake.device_array(right)]) == ()
    (wrong,) = wrong_outputs(SHIFTED, (x, y), lambda x, y: fake.device_array(x))
    assert (wrong.index, wrong.value, wrong.expected) == ((0,), 9.0, 0.0)
    with pytest.raises(BadExpectation, match="expect= of y is 3, and y is 8"):
        wrong_outputs(SHIFTED, (x, y), fake.device_array(right[:3].copy()))
