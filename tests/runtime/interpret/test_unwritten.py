"""Notes of sanitized launches on what they do not write: each with its place, and none where nothing is missing."""

import warnings
from typing import Any

import numpy as np
import pytest

from tessera.api.source_module import compile_source
from tessera.kernels.kernel import Kernel

HEAD = "@kernel(sanitize=True)\ndef k(u: f32[n, m], v: mut f32[n, m]):\n"
LOOP = "    for i in tile.range(n, step=4):\n        "


def notes(body: str, *arrays: np.ndarray, head: str = HEAD) -> list[str]:
    module: Any = compile_source(head + LOOP + body.replace("\n", "\n        ") + "\n", "cell.py")
    kernel: Kernel = module.k
    values = arrays or (np.ones((10, 3), np.float32), np.zeros((10, 3), np.float32))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(*values)
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def test_elements_without_a_value_that_reach_a_store():
    (note,) = notes("up = u[i - 1 : i + 3, :]\nv[i : i + 4, :] = up + u[i + 1 : i + 5, :]")
    assert note.startswith(
        "k (cell.py, line 5): 6 elements of v are left out here, the first is v[0, 0]: what is stored"
    )
    assert "tile.fill" in note


def test_right_kernels_have_no_notes():
    assert notes("v[i : i + 4, :] = 2.0 * u[i : i + 4, :]") == []
    assert notes("up = tile.fill(u[i - 1 : i + 3, :], 0.0)\nv[i : i + 4, :] = up") == []


def test_elements_that_nothing_writes():
    assert notes("v[i + 1 : i + 5, :] = u[i : i + 4, :]") == [
        "k (cell.py, line 2): 3 of 30 elements of v are never written, the first is v[0, 0]"
    ]


def test_a_few_elements_that_are_updated_are_meant():
    assert notes("v[0, :] = u[i, :]") == []


def test_an_output_that_nothing_writes():
    head = "@kernel(sanitize=True)\ndef k(u: f32[n], v: mut f32[n], w: mut f32[n]):\n"
    arrays = [np.ones(8, np.float32) for _ in range(3)]
    body = "v[i : i + 4] = u[i : i + 4]\nif i > 100:\n    w[i : i + 4] = u[i : i + 4]"
    assert notes(body, *arrays, head=head) == ["k (cell.py, line 2): nothing writes w"]
    nothing = [np.ones(0, np.float32) for _ in range(3)]
    assert notes("v[i : i + 4] = u[i : i + 4]", *nothing, head=head) == []


@pytest.mark.parametrize("target", ["interpret"])
def test_other_launches_say_nothing(target: str):
    module: Any = compile_source(
        HEAD.replace("sanitize=True", f"target={target!r}") + LOOP + "v[i + 1 : i + 5, :] = u[i : i + 4, :]\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.k(np.ones((10, 3), np.float32), np.zeros((10, 3), np.float32))


def test_elements_without_a_value_are_no_writes():
    """Two trips, of which one has no values where the other writes: they do not meet."""
    head = "@kernel(sanitize=True)\ndef k(u: f32[n], v: mut f32[n]):\n"
    u, v = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    (note,) = notes("w = u[i + 2 : i + 6] + u[i - 2 : i + 2]\nv[i : i + 4] = w", u, v, head=head)
    assert note.startswith("k (cell.py, line 5): 4 elements of v are left out here, the first is v[0]")
    np.testing.assert_array_equal(v, [0, 0, 4, 6, 8, 10, 0, 0])
