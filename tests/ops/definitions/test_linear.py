"""Contractions against NumPy in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden


def wide(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    return [each.astype(np.float64) for each in arrays]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("a", "b"), [((5, 7), (7, 3)), ((7,), (7, 3)), ((5, 7), (7,)), ((7,), (7,)), ((2, 5, 7), (7, 3)),
                 ((2, 1, 5, 7), (3, 7, 4)), ((65, 130), (130, 70))],
)  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: str):
    x, y = drawn(a, FLOATS[dtype], 1), drawn(b, FLOATS[dtype], 2)
    got = everywhere(op.matmul, x, y)
    assert got.dtype == x.dtype
    close(got, np.matmul(*wide(x, y)), TOLERANCE[dtype])


@settings(max_examples=10)
@given(
    m=st.integers(0, 40), n=st.integers(0, 40), k=st.integers(0, 70), batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    dtype=st.sampled_from(sorted(FLOATS)),
)  # fmt: skip
def test_matmul_of_any_extents(m: int, n: int, k: int, batch: tuple[int, ...], dtype: str):
    x, y = drawn((*batch, m, k), FLOATS[dtype], 1), drawn((k, n), FLOATS[dtype], 2)
    close(everywhere(op.matmul, x, y), np.matmul(*wide(x, y)), TOLERANCE[dtype])


def test_matmul_of_two_dtypes():
    x, y = drawn((5, 7), np.float16, 1), drawn((7, 3), np.float32, 2)
    got = everywhere(op.matmul, x, y)
    assert got.dtype == np.float32
    close(got, np.matmul(*wide(x, y)), 2e-6)


def test_matmul_of_integers():
    x, y = drawn((5, 7), np.int32, 1, -9, 9), drawn((7, 3), np.int32, 2, -9, 9)
    np.testing.assert_array_equal(everywhere(op.matmul, x, y), x @ y)


def test_matmul_options():
    x, y = drawn((64, 96), np.float32, 1), drawn((96, 64), np.float32, 2)
    want = np.matmul(*wide(x, y))
    close(everywhere(lambda x, y: op.matmul(x, y, tile_shape=(32, 32, 16)), x, y), want, 2e-6)
    close(everywhere(lambda x, y: op.matmul(x, y, exact=True), x, y), want, 2e-6)
    close(everywhere(lambda x, y: op.matmul(x, y, compute="tf32"), x, y), want, 2e-3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gemm_with_a_bias(dtype: str):
    x, y, bias = drawn((2, 5, 7), FLOATS[dtype], 1), drawn((7, 3), FLOATS[dtype], 2), drawn((3,), FLOATS[dtype], 3)
    product = np.matmul(*wide(x, y))
    close(everywhere(op.gemm, x, y), product, TOLERANCE[dtype])
    close(everywhere(op.gemm, x, y, bias), product + bias.astype(np.float64), 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("batch", [(), (2,)])
def test_gemm_joins_the_heads_of_attention(batch: tuple[int, ...]):
    y, weight = drawn((*batch, 4, 6, 8), np.float32, 1), drawn((32, 5), np.float32, 2)
    joined = np.moveaxis(y, -3, -2).reshape(*batch, 6, 32)
    close(everywhere(op.gemm, y, weight), np.matmul(*wide(joined, weight)), 2e-6)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("bhik,bhjk->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,i->", (7,), (7,)), ("i,j->ij", (3,), (4,)), ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ij->ji", (3, 4), (3, 4)),
    ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ijk->kj", (3, 4, 5)), ("ij,j->i", (3, 4), (4,)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)), ("ij,kl->ik", (3, 4), (5, 6)), ("a,ab,b->", (3,), (3, 4), (4,)),
    ("ij,->ij", (3, 4), ()), ("bi,oi->ob", (3, 4), (5, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case: tuple[str, *tuple[tuple[int, ...], ...]]):
    subscripts, *shapes = case
    arrays = [drawn(shape, np.float32, n) for n, shape in enumerate(shapes)]
    got = everywhere(lambda *arrays: op.einsum(subscripts, *arrays), *arrays)
    close(got, np.einsum(subscripts, *wide(*arrays)), 2e-6)


@settings(max_examples=10)
@given(data=st.data())
def test_einsum_of_any_two_operands(data: st.DataObject):
    extents = dict(zip("abcde", (2, 3, 4, 5, 6), strict=True))
    term = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map("".join)
    left, right = data.draw(term), data.draw(term)
    letters = sorted(set(left + right))
    output = "".join(data.draw(st.permutations(letters))[: data.draw(st.integers(0, len(letters)))])
    x, y = (drawn([extents[letter] for letter in each], np.float64, n) for n, each in enumerate((left, right)))
    subscripts = f"{left},{right}->{output}"
    close(everywhere(lambda x, y: op.einsum(subscripts, x, y), x, y), np.einsum(subscripts, x, y), 1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_extents_that_do_not_fit(target: str):
    x = drawn((3, 4), np.float32)

    @graph.module
    def inside(x: Array) -> Array:
        return op.matmul(x, x)

    with overridden(target=target):
        for call in (lambda: op.matmul(x, x), lambda: inside(x)):
            with pytest.raises(OperandMismatch, match="have no inner extent in common") as raised:
                call()
            text = str(raised.value)
            assert "op.matmul(x, x)" in text
            assert "^^^^^^^^^^^^^^^" in text
            assert "try: the last axis of a and the last but one of b must be equal" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.matmul(x, "2.0"), "'2.0' is no array"),
        (lambda x: op.matmul(x, np.array(2.0)), "a number is no matrix"),
        (lambda x: op.matmul(x, x.T, compute="tf33"), "there is no compute type 'tf33'"),
        (lambda x: op.matmul(np.stack([x] * 2), np.stack([x.T] * 3)), "do not broadcast"),
        (lambda x: op.matmul(x, x.T, tile_shape=(16, 16)), "three extents"),
        (lambda x: op.matmul(x, x.T, tile_shape=(16, 16, -1)), "three extents"),
        (lambda x: op.gemm(x, x.T, x), "do not broadcast together"),
        (lambda x: op.einsum("ij,jk->ik", x), "names 2 operands, and there are 1"),
        (lambda x: op.einsum("ii->i", x), "does not name the 2 axes"),
        (lambda x: op.einsum("ijk->i", x), "does not name the 2 axes"),
        (lambda x: op.einsum("ij,ik->jk", x, x.T), "axis 'i' has 3 and 4 elements"),
        (lambda x: op.einsum("ij->k", x), "no operand has the axis k"),
        (lambda x: op.einsum("ij->ii", x), "names an axis twice"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=message) as raised:
        call(drawn((3, 4), np.float32))
    assert "test_linear.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_bools_say_whether_any_holds(target: str):
    a, b = np.array([[True, True, False], [False, False, True]]), np.array([[True], [True], [False]])
    with overridden(target=target):
        assert np.asarray(op.matmul(a, b)).tolist() == [[True], [False]]
        assert np.asarray(op.einsum("ij,k->ijk", a, b[:2, 0])).tolist() == (a[:, :, None] & b[:2, 0]).tolist()
        assert np.asarray(op.einsum("ij,k->ijk", a, b[:2, 0])).dtype == np.bool_


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "bool"])
def test_a_compute_type_is_of_its_own_operands(dtype: str):
    x = np.ones((2, 2), dtype)
    with pytest.raises(OperandMismatch, match="compute=tf32 rounds factors of f32"):
        op.matmul(x, x, compute="tf32")
