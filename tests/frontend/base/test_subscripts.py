"""Subscripts: what numbers in brackets mean, on the interpreter, on the CPU and in what is made for a GPU."""

import numpy as np
import pytest

import tessera
from frontend.kernels import array, build
from support.simulate import simulate
from tessera.core.base.dtypes import f32
from tessera.core.settings import overridden

X = np.arange(1, 7, dtype=np.float32)
"""No element is 0, so that a read outside shows."""

# body (writes out[0:6]), and what comes out; the extent is a symbol in one run and a number in another.
INDICES = {
    "literal": ("out[0] = x[-1]\n    out[1] = x[-6]", [6, 1, 0, 0, 0, 0]),
    "literals of slices": ("out[0:3] = x[-3:]\n    out[3:5] = x[-6:-4]", [4, 5, 6, 1, 2, 0]),
    "loop over a range": ("for k in range(3):\n        out[k] = x[k - 1]", [0, 1, 2, 0, 0, 0]),
    "loop over a list": ("for k in [0, 1, 2]:\n        out[k] = x[k - 1]", [0, 1, 2, 0, 0, 0]),
    "known number": ("d = 0\n    out[0] = x[d - 1]\n    out[1] = x[d]", [0, 1, 0, 0, 0, 0]),
    "name of a number": ("last = -1\n    out[0] = x[last]\n    out[1] = 1.0", [0, 1, 0, 0, 0, 0]),
    "extent": ("out[0] = x[x.shape[0] - 7]\n    out[1] = x[x.shape[0] - 6]", [0, 1, 0, 0, 0, 0]),
    "slice from a known number": ("d = 0\n    out[0:4] = x[d - 2:d + 2]", [0, 0, 1, 2, 0, 0]),
    "slice from an extent": ("out[0:3] = x[x.shape[0] - 8:x.shape[0] - 5]", [0, 0, 1, 0, 0, 0]),
    "written": ("d = 0\n    out[d - 1] = 9.0\n    out[-1] = 8.0", [0, 0, 0, 0, 0, 8]),
    "of shared memory": (
        "s = tshared.alloc[f32](6)\n    s[:] = x[0:6]\n    d = 0\n    out[0] = s[-1]\n    out[1] = s[d - 1]",
        [6, 0, 0, 0, 0, 0],
    ),
    "of a lane": ("i = launch.thread_id()\n    if i < 6:\n        out[i] = x[i - 2] + x[-1]", [6, 6, 7, 8, 9, 10]),
}


def text(body: str, extent: str) -> str:
    return f"@kernel\ndef k(x: f32[{extent}], out: mut f32[{extent}]):\n    {body}\n"


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("extent", ["n", "6"])
@pytest.mark.parametrize("case", INDICES)
def test_only_a_negative_number_in_the_text_counts_from_the_end(case: str, extent: str, target: str):
    body, want = INDICES[case]
    out = np.zeros(6, np.float32)
    with overridden(target=target):
        tessera.compile_source(text(body, extent)).k(X, out)
    assert out.tolist() == want


@pytest.mark.parametrize("extent", ["n", "6"])
@pytest.mark.parametrize("case", INDICES)
def test_and_on_a_gpu(case: str, extent: str):
    body, want = INDICES[case]
    program = build(text(body, extent), array(f32, 6), array(f32, 6))
    out = np.zeros(6, np.float32)
    simulate(program, [X, out])
    assert out.tolist() == want


def test_a_negative_number_of_an_axis_among_others():
    x, out = np.arange(9, dtype=np.float32).reshape(3, 3), np.zeros(3, np.float32)
    tessera.compile_source("@kernel\ndef k(x: f32[m, n], out: mut f32[n]):\n    out[:] = x[-2, :] + x[..., -1]\n").k(
        x, out
    )
    assert np.array_equal(out, x[-2, :] + x[..., -1])
