"""What is proved to be a partial sum, and what is refused: each would be a silent wrong result."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from tessera import dist
from tessera.core.errors.catalog import BadIndexLaunch
from tessera.core.settings import overridden

HEAD = "@kernel\ndef k(A: f32[M, K/tp], B: f32[K/tp, N], b: f32[N], s: f32, C: mut f32[M, N]):\n    "


def launched(text: str) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
    """Run a kernel over 3 points; return what it wrote, and the arrays."""
    kernel = tessera.compile_source(text).k
    mesh = dist.Mesh("tp", range(3))
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {"A": (4, 7), "B": (7, 5), "b": (5,), "C": (4, 5)}.items()
    }
    layouts = {"A": dist.Block((None, "tp")), "B": dist.Block("tp")}
    given: list[object] = []
    for name, values in arrays.items():
        x = dist.tensor(values.shape, layouts.get(name), mesh, "f32", name)
        x[...] = values
        given.append(x)
    with overridden(target="cpu"):
        tessera.index_launch("tp")(kernel)(*given[:3], 2.0, given[3])
    return np.asarray(given[3]), arrays


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("C[:] = A @ B", lambda A, B, b, C: A @ B),
        ("C[:] = (A @ B) * s", lambda A, B, b, C: A @ B * 2),
        ("C[:] = -(A @ B) / s + (A @ B) * b", lambda A, B, b, C: A @ B * (b - 0.5)),
        ("C[:] += A @ B", lambda A, B, b, C: C + A @ B),
        ("C[:] = (A * s) @ B", lambda A, B, b, C: A @ B * 2),
        ("C[:] = tile.relu(A) @ B", lambda A, B, b, C: np.maximum(A, 0) @ B),
    ],
)
def test_partial_sums(body: str, want: Callable[..., NDArray[np.float32]]):
    got, arrays = launched(HEAD + body + "\n")
    np.testing.assert_allclose(got, want(**arrays), atol=1e-5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("C[:] = A @ B + b", "hold no partial sums along tp: add of a partial sum is none"),
        ("C[:] = tile.relu(A @ B)", "of a partial sum is none"),
        ("C[:] = tile.exp(A @ B)", "exp of a partial sum is none"),
        ("C[:] = (A @ B) * (A @ B)", "mul of a partial sum is none"),
        ("C[:] = b + s", "hold no partial sums along tp: C is the same in each"),
        ("C[:] = C + s", "add of a partial sum is none"),
        ("C[:] = tile.max(A, axis=1)[:, None] + b", "a max along what is cut is none"),
    ],
)
def test_what_is_none(body: str, message: str):
    with pytest.raises(BadIndexLaunch, match=rf"^[^\n]*(?:{message})") as raised:
        launched(HEAD + body + "\n")
    assert raised.value.hint.startswith("write what is summed over alone, C[:] = A @ B, or gather first")


def test_sums_of_rows():
    text = HEAD + "C[:] = tile.sum(A, axis=1)[:, None] * b\n"
    got, arrays = launched(text)
    np.testing.assert_allclose(got, arrays["A"].sum(1, keepdims=True) * arrays["b"], atol=1e-5)


def test_a_kernel_that_cannot_be_raised():
    text = (
        HEAD
        + "i = tile.linear_id()\n    v = A[0, 0]\n    v += tile.warp_shuffle_down(v, 1)\n    if i < 1:\n        C[0, 0] = v\n"
    )
    with pytest.raises(BadIndexLaunch, match="what the points of k hold cannot be seen to be partial sums: "):
        launched(text)
