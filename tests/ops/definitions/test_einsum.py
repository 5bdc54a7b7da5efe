"""`op.einsum` against NumPy's."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportCallIssue=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

import tessera
from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Numbers = NDArray[Any]
EXAMPLES: list[tuple[str, *tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("bhik,bhjk->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,i->", (7,), (7,)), ("i,j->ij", (3,), (4,)), ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ij->ji", (3, 4), (3, 4)),
    ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ijk->kj", (3, 4, 5)), ("ij,j->i", (3, 4), (4,)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)), ("ij,kl->ik", (3, 4), (5, 6)), ("a,ab,b->", (3,), (3, 4), (4,)),
    ("ij,->ij", (3, 4), ()), ("bi,oi->ob", (3, 4), (5, 4)), ("ii->", (4, 4)), ("ii", (4, 4)), ("ii->i", (4, 4)),
    ("iij->ij", (3, 3, 5)), ("iijk->ijk", (3, 3, 4, 5)), ("ijij->ji", (3, 4, 3, 4)), ("iii->i", (3, 3, 3)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("...ij,jk", (2, 3, 4), (4, 5)), ("...,...", (3, 1), (2, 1, 4)),
    ("i...->...i", (3, 4, 5)), ("i...,...i->...", (3, 4), (2, 1, 3)), ("ii...->i...", (2, 2, 3, 4)),
    (" i j , j k -> k i ", (3, 4), (4, 5)), ("bqd,bkd,bkv->bqv", (2, 3, 4), (2, 5, 4), (2, 5, 6)), ("->", ()),
    ("...->...", ()), ("i,ij,ijk,k->j", (2,), (2, 3), (2, 3, 4), (4,)), ("Ab,bA->A", (2, 3), (3, 2)), ("ba", (2, 3)),
]  # fmt: skip


def integers(shape: Sequence[int], dtype: DTypeLike, seed: int) -> Numbers:
    """Small whole numbers, of which sums of products are exact."""
    low, high = (0, 2) if dtype == np.bool_ else (-3, 4)
    return np.random.default_rng((seed, *shape)).integers(low, high, tuple(shape)).astype(dtype)


def test_examples_on_each_target():
    arrays = [[drawn(shape, np.float32, n) for n, shape in enumerate(shapes)] for _, *shapes in EXAMPLES]
    flat = [each for group in arrays for each in group]

    def every(*arguments: Array) -> tuple[Array, ...]:
        following = iter(arguments)
        return tuple(op.einsum(text, *(next(following) for _ in shapes)) for text, *shapes in EXAMPLES)

    for target in TARGETS:
        with overridden(target=target):
            got = graph.module("every")(every)(*flat)
        for (text, *_), group, each in zip(EXAMPLES, arrays, got, strict=True):
            want = np.einsum(text, *(x.astype(np.float64) for x in group))
            assert np.shape(each) == want.shape, text
            close(each, want, 4e-6)


@st.composite
def subscripts(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Return subscripts and shapes that fit them."""
    extents = {letter: draw(st.integers(1, 3)) for letter in "abcd"}
    batch = [draw(st.integers(1, 3)) for _ in range(2)]
    terms: list[str] = []
    shapes: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 4))):
        letters = draw(st.lists(st.sampled_from("abcd"), max_size=3))
        shape = [extents[letter] for letter in letters]
        if draw(st.booleans()):
            rank, position = draw(st.integers(0, 2)), draw(st.integers(0, len(letters)))
            letters.insert(position, "...")
            shape[position:position] = [draw(st.sampled_from([1, extent])) for extent in batch[2 - rank :]]
        terms.append("".join(letters))
        shapes.append(tuple(shape))
    text = ",".join(terms)
    if draw(st.booleans()):
        return text, shapes
    letters = sorted({letter for letter in text if letter.isalpha()})
    output = draw(st.permutations(letters))[: draw(st.integers(0, len(letters)))]
    if "..." in text:
        output.insert(draw(st.integers(0, len(output))), "...")
    return f"{text}->{''.join(output)}", shapes


@settings(max_examples=40)
@given(drawn_subscripts=subscripts())
def test_any_subscripts(drawn_subscripts: tuple[str, list[tuple[int, ...]]]):
    text, shapes = drawn_subscripts
    for dtype in (np.float64, np.int32, np.bool_):
        arrays = [integers(shape, dtype, n) for n, shape in enumerate(shapes)]
        want = np.einsum(text, *arrays)
        with overridden(target="interpret"):
            got = np.asarray(op.einsum(text, *arrays))
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@settings(max_examples=10)
@given(drawn_subscripts=subscripts())
def test_derivatives_of_any_subscripts(drawn_subscripts: tuple[str, list[tuple[int, ...]]]):
    text, shapes = drawn_subscripts
    arrays = [drawn(shape, np.float64, n) for n, shape in enumerate(shapes)]
    with overridden(target="interpret"):
        assert tessera.check_adjoint(lambda *x: op.einsum(text, *x), *arrays).within(1e-6)


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,kj,kl->il", "ii,i,j->ij", "...i->...", "ij,kl->k"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_floats_of_16_bits_are_rounded_once(text: str, dtype: str):
    terms = text.partition("->")[0].split(",")
    arrays = [drawn((30,) * len(term.replace("...", "z")), FLOATS[dtype], n, 0.1, 1) for n, term in enumerate(terms)]
    want = np.einsum(text, *(x.astype(np.float64) for x in arrays))
    with overridden(target="interpret"):
        got = np.asarray(op.einsum(text, *arrays))
    assert got.dtype == arrays[0].dtype
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=TOLERANCE[dtype] / 3)


def test_operands_of_several_dtypes_meet_first():
    large = np.full((4, 2), 2**30, np.int32)
    got = np.asarray(op.einsum("ij,j->j", large, np.ones(2)))
    np.testing.assert_array_equal(got, [2.0**32, 2.0**32])
    assert got.dtype == np.float64


@pytest.mark.parametrize("target", TARGETS)
def test_axes_without_elements(target: str):
    with overridden(target=target):
        np.testing.assert_array_equal(op.einsum("ij,jk->ik", np.ones((2, 0)), np.ones((0, 3))), np.zeros((2, 3)))
        np.testing.assert_array_equal(op.einsum("ii->", np.ones((0, 0))), 0.0)
        assert np.asarray(op.einsum("ii...->i...", np.ones((0, 0, 3)))).shape == (0, 3)


def test_a_trace_has_the_identity_as_its_derivative():
    got = everywhere(tessera.grad(lambda x: op.einsum("ii", x)), drawn((5, 5), np.float32))
    np.testing.assert_array_equal(got, np.eye(5, dtype=np.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.einsum("ij,jk->ik", x), "'ij,jk->ik' names 2 operands, and there are 1"),
        (lambda x: op.einsum("ij,jk", x, x.T, x), "'ij,jk' names 2 operands, and there are 3"),
        (lambda x: op.einsum("ii->i", x), "axis 'i' has 3 and 4 elements in 'ii->i'"),
        (lambda x: op.einsum("ijk->i", x), "'ijk' in 'ijk->i' does not name the 2 axes of (3, 4)"),
        (lambda x: op.einsum("i->i", x), "'i' in 'i->i' does not name the 2 axes of (3, 4)"),
        (lambda x: op.einsum("...ijk", x), "does not name the 2 axes of (3, 4)"),
        (lambda x: op.einsum("ij,ik->jk", x, x.T), "axis 'i' has 3 and 4 elements in 'ij,ik->jk'"),
        (lambda x: op.einsum("ij,ik->jk", x, x[:1]), "axis 'i' has 3 and 1 elements"),
        (lambda x: op.einsum("ij->k", x), "no operand has the axis k of the result of 'ij->k'"),
        (lambda x: op.einsum("ij->ii", x), "the result of 'ij->ii' names an axis twice: i"),
        (lambda x: op.einsum("i...->i", x), "the result of 'i...->i' leaves out the axes of ..."),
        (lambda x: op.einsum("...,...", x, x[:2]), "(3, 4) and (2, 4), do not broadcast together"),
        (lambda x: op.einsum("i..j", x), "'i..j' in 'i..j' names no axes"),
        (lambda x: op.einsum("...i...", x), "names no axes"),
        (lambda x: op.einsum("i1", x), "'i1' in 'i1' names no axes"),
        (lambda x: op.einsum("ij->i->j", x), "names no axes"),
        (lambda x: op.einsum("ij,", x), "names 2 operands, and there are 1"),
        (lambda _: op.einsum("->"), "'->' names 1 operands, and there are 0"),
    ],
)
def test_bad_subscripts(call: Callable[[Numbers], object], message: str):
    with pytest.raises(OperandMismatch) as raised:
        call(drawn((3, 4), np.float32))
    first, _, listing = str(raised.value).partition("\n")
    assert message in first
    assert "test_einsum.py, line" in listing
    assert "^^^^" in listing
