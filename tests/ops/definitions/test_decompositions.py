"""Cholesky, singular values and triangular systems against NumPy, with their derivatives against differences."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

import tessera
from support.operators import FLOATS, Array, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import NoDecomposition, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction

TOLERANCE = {"f64": 1e-12, "f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}


def definite(shape: Sequence[int], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    x = drawn(shape, np.float64, 5)
    return (x @ x.swapaxes(-1, -2) + 2 * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5)])
def test_cholesky(dtype: str, shape: tuple[int, ...]):
    a = definite(shape, FLOATS[dtype])
    got = everywhere(op.cholesky, a)
    assert got.dtype == a.dtype
    close(got, np.linalg.cholesky(a.astype(np.float64)), TOLERANCE[dtype])


def test_cholesky_takes_the_mean_of_both_triangles():
    a = definite((3, 3))
    skew = np.triu(np.ones((3, 3)), 1)
    close(everywhere(op.cholesky, a + skew - skew.T), np.linalg.cholesky(a), 1e-12)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
def test_svd(dtype: str, shape: tuple[int, ...]):
    a = drawn(shape, FLOATS[dtype])

    def rebuilt(a: Array) -> Array:
        found = op.svd(a)
        return op.matmul(op.cast(found.u, "f64"), op.cast(found.s[..., None] * found.vh, "f64"))

    close(everywhere(rebuilt, a), a, 4 * TOLERANCE[dtype])
    u, s, vh = op.svd(a)
    close(s, np.linalg.svd(a.astype(np.float64), compute_uv=False), 4 * TOLERANCE[dtype])
    assert {each.dtype for each in (u, s, vh)} == {a.dtype}
    least = min(shape[-2:])
    assert [each.shape[-2:] for each in (u, vh)] == [(shape[-2], least), (least, shape[-1])]


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("left", "right"), [((4, 4), (4, 3)), ((2, 1, 4, 4), (3, 4, 2)), ((4, 4), (4,))])
def test_triangular_solve(lower: bool, transpose: bool, left: tuple[int, ...], right: tuple[int, ...]):
    a, b = definite(left), drawn(right, np.float64, 1)
    got = everywhere(lambda a, b: op.triangular_solve(a, b, lower=lower, transpose=transpose), a, b)
    triangle = np.tril(a) if lower else np.triu(a)
    turned = triangle.swapaxes(-1, -2) if transpose else triangle
    product = turned @ got
    close(product, np.broadcast_to(b, product.shape), 1e-12)


def of_svd(a: Array) -> Array:
    """Return a number that does not depend on the signs of the vectors."""
    u, s, vh = op.svd(a)
    return op.sum(op.square(u @ op.exp(s[..., None] * vh * 0.1))) + op.sum(s * s * s)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (op.cholesky, [definite((2, 4, 4))]),
        (lambda a: op.cholesky(a) @ op.cholesky(a).T, [definite((3, 3))]),
        (of_svd, [drawn((4, 4), np.float64)]),
        (of_svd, [drawn((2, 5, 3), np.float64)]),
        (of_svd, [drawn((3, 5), np.float64)]),
        *[
            (partial(op.triangular_solve, lower=lower, transpose=transpose),
             [definite((2, 4, 4)), drawn((4, 3), np.float64)])
            for lower, transpose in product((False, True), repeat=2)
        ],
    ],
)  # fmt: skip
def test_derivatives(function: Callable[..., object], arrays: list[NDArray[Any]]):
    assert tessera.check_adjoint(function, *arrays).within(1e-7)


def test_second_derivatives():
    a, direction = definite((4, 4)), np.eye(4) + 0.1

    def corner(a: Array) -> Array:
        factor = op.cholesky(a)
        return op.sum(factor[0, 0] * factor[1, 1])

    (got,) = tessera.hvp(corner, (a,), (direction,))
    ends = [np.asarray(tessera.grad(corner)(a + sign * 1e-5 * direction)) for sign in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-5, atol=1e-8)


def test_second_derivatives_of_singular_values():
    """A graph of several hundred nodes, whose plan must not take long: no search goes through all of it for each."""
    a, direction = drawn((3, 2), np.float64), drawn((3, 2), np.float64, 1)
    with overridden(target="interpret"):
        (got,) = tessera.hvp(of_svd, (a,), (direction,))
        ends = [np.asarray(tessera.grad(of_svd)(a + sign * 1e-5 * direction)) for sign in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-5, atol=1e-7)


def test_the_derivative_of_equal_singular_values_is_finite():
    """The sum of squares does not see how the vectors are chosen."""
    a = np.eye(3)

    def squares(a: Array) -> Array:
        u, s, vh = op.svd(a)
        return op.sum(op.square((u * s) @ vh))

    np.testing.assert_allclose(tessera.grad(squares)(a), 2 * a, atol=1e-12)


def test_they_are_calls_in_graph_and_schedule():
    model = GraphFunction(lambda a: op.cholesky(a) + 1, "model")
    model(definite((3, 3)))
    assert 'name = "cholesky", library = "LAPACK, cuSOLVER"' in model.inspect_ir("graph")
    assert "call 1 cholesky (LAPACK, cuSOLVER): 144 B" in model.inspect_ir("schedule")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: op.cholesky(np.ones((3, 4))), OperandMismatch, r"square matrices, not \(3, 4\)"),
        (lambda: op.cholesky(np.ones(4)), OperandMismatch, "square matrices"),
        (lambda: op.cholesky(-np.eye(3)), NoDecomposition, "not positive definite"),
        (lambda: op.svd(np.ones(4)), OperandMismatch, "no matrices in its last two axes"),
        (lambda: op.svd(np.ones((3, 0))), OperandMismatch, r"\(3, 0\) has no matrices"),
        (lambda: op.svd(np.full((2, 2), np.nan)), NoDecomposition, "NaN or infinities"),
        (lambda: op.triangular_solve(np.eye(3), np.ones((4, 2))), OperandMismatch, "has no right side"),
        (lambda: op.triangular_solve(np.ones((2, 3)), np.ones((3, 2))), OperandMismatch, "square matrices"),
        (lambda: op.triangular_solve(np.ones((2, 3, 3)), np.ones((4, 3, 2))), OperandMismatch, "do not broadcast"),
        (lambda: op.triangular_solve(np.zeros((3, 3)), np.ones((3, 2))), NoDecomposition, "0 on its diagonal"),
    ],
)  # fmt: skip
def test_mistakes(call: Callable[[], object], error: type[tessera.TesseraError], message: str):
    with pytest.raises(error, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)


def test_a_mistake_inside_of_a_graph_has_the_place_of_the_operator():
    def model(a: Array) -> Array:
        return op.cholesky(a - 10) + 1

    with pytest.raises(NoDecomposition) as caught:
        GraphFunction(model)(np.eye(3))
    assert "return op.cholesky(a - 10) + 1" in str(caught.value)
