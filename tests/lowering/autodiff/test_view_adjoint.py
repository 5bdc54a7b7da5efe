"""The transpose of every index map: <A x, y> = <x, A' y>, exactly, with small integers."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gradients import check, graph_of, reals
from tessera.core.base.dtypes import bf16, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, broadcast, identity, reshape, transpose, window
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.reverse import vjp
from tessera.runtime.interpret.graph import evaluate


def viewed(index_map: IndexMap, shape: Sequence[int]) -> Graph:
    builder = GraphBuilder()
    x = Value(Tensor(f64, tuple(shape)), "x")
    return builder.finish("view", [x], [builder.add("view", (x,), index_map)])


def assert_transposed(index_map: IndexMap, shape: Sequence[int]) -> Graph:
    """Compare with the transpose of the whole matrix, made of the views of unit vectors."""
    graph = viewed(index_map, shape)
    backward = vjp(graph, (0,))
    verify(backward)
    rng = np.random.default_rng(0)
    cotangent = rng.integers(-9, 9, index_map.shape).astype(np.float64)
    size = int(np.prod(shape))
    rows = [evaluate(graph, [unit.reshape(shape)])[0].reshape(-1) for unit in np.eye(size)]
    wanted = (np.array(rows).reshape(size, cotangent.size) @ cotangent.reshape(-1)).reshape(shape)
    found = evaluate(backward, [np.zeros(shape), cotangent])[1]
    np.testing.assert_array_equal(found, wanted)
    return backward


def conv_map(n: int, k: int, stride: int = 1, dilation: int = 1, pad: int = 0) -> IndexMap:
    out = (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    return IndexMap((out, k), (Affine(-pad, (Term(0, stride), Term(1, dilation))),), pad > 0)


CASES = {
    "identity": (identity((3, 4)), (3, 4)),
    "transposition": (transpose((2, 3, 4), (2, 0, 1)), (2, 3, 4)),
    "split": (reshape((12,), (3, 4)), (12,)),
    "join": (reshape((2, 3, 4), (24,)), (2, 3, 4)),
    "regroup": (reshape((4, 6), (2, 2, 3, 2)), (4, 6)),
    "join and split": (reshape((2, 6, 5), (12, 5)), (2, 6, 5)),
    "across": (reshape((4, 6), (8, 3)), (4, 6)),
    "squeeze": (reshape((4, 1, 3), (4, 3)), (4, 1, 3)),
    "unsqueeze": (reshape((4, 3), (1, 4, 1, 3)), (4, 3)),
    "slice": (window((7, 5), (2, 1), (1, 1), (3, 4)), (7, 5)),
    "stride": (window((9,), (1,), (3,), (3,)), (9,)),
    "flip": (window((6,), (5,), (-1,), (6,)), (6,)),
    "flip with stride": (window((9,), (8,), (-2,), (4,)), (9,)),
    "pad": (window((3, 4), (-2, -1), (1, 1), (6, 6)), (3, 4)),
    "pad and stride": (window((5,), (-3,), (2,), (6,)), (5,)),
    "broadcast": (broadcast((3, 1), (1, 2), (4, 3, 5)), (3, 1)),
    "repeat a number": (broadcast((), (), (4, 3)), ()),
    "convolution": (conv_map(9, 3), (9,)),
    "convolution, padded": (conv_map(9, 3, pad=1), (9,)),
    "convolution with stride": (conv_map(11, 3, stride=2), (11,)),
    "convolution with dilation": (conv_map(11, 3, dilation=2, pad=2), (11,)),
    "convolution, all": (conv_map(13, 3, stride=3, dilation=2, pad=3), (13,)),
    "patches without overlap": (conv_map(12, 3, stride=3), (12,)),
    "patches with gaps": (conv_map(12, 2, stride=5), (12,)),
    "two axes of windows": (
        IndexMap((4, 3, 3, 2), (Affine(-1, (Term(0), Term(2))), Affine(0, (Term(1, 2), Term(3)))), True), (4, 6),
    ),
    "diagonal": (IndexMap((4,), (Affine(0, (Term(0),)), Affine(0, (Term(0),)))), (4, 4)),
    "toeplitz": (IndexMap((3, 3), (Affine(2, (Term(0), Term(1, -1))),)), (5,)),
    "one column": (IndexMap((4,), (Affine(0, (Term(0),)), Affine(2))), (4, 3)),
    "one element": (IndexMap((), (Affine(1), Affine(2))), (4, 3)),
    "modulus": (IndexMap((10,), (Affine(0, (Term(0, 1, 1, 4),)),)), (4,)),
    "quotient": (IndexMap((10,), (Affine(0, (Term(0, 1, 3, 0),)),)), (4,)),
    "quotient and remainder, cut short": (IndexMap((10,), (Affine(0, (Term(0, 1, 4),)), Affine(0, (Term(0, 1, 1, 4),)))), (3, 4)),
    "digits that do not nest": (IndexMap((12,), (Affine(0, (Term(0, 1, 2),)), Affine(0, (Term(0, 1, 3),)))), (6, 4)),
    "a digit twice in one axis": (IndexMap((4,), (Affine(0, (Term(0), Term(0, 2))),)), (12,)),
    "terms that cancel": (IndexMap((4,), (Affine(1, (Term(0), Term(0, -1))),)), (3,)),
    "windows far outside": (IndexMap((3, 2), (Affine(-9, (Term(0, 4), Term(1, 3))),), True), (5,)),
    "nothing is read": (IndexMap((0, 3), (Affine(0, (Term(1),)),)), (3,)),
    "nothing to read": (IndexMap((2,), (Affine(0, (Term(0),)), Affine(0, ())), True), (2, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_views(case: str):
    assert_transposed(*CASES[case])


@pytest.mark.parametrize("case", ["transposition", "split", "join", "regroup", "slice", "flip", "pad", "unsqueeze"])
def test_what_moves_each_element_once_is_views_alone(case: str):
    assert {node.op for node in assert_transposed(*CASES[case]).nodes} <= {"view"}


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith(("convolution", "patches", "two axes"))])
def test_windows_need_no_scatter(case: str):
    assert {node.op for node in assert_transposed(*CASES[case]).nodes} <= {"view", "reduce"}


def test_reshapes_that_do_not_nest_go_over_the_flat_form():
    check(graph_of(lambda b, x: b.reshape(x, (9, 4)), reals(6, 6)))


def test_convolution_through_a_window():
    """[batch, channel, row, column] with [out, channel, 3, 3], padded, stride 2."""

    def convolution(b: GraphBuilder, x: Value, w: Value) -> Value:
        windows = IndexMap(
            (2, 3, 3, 3, 3, 3),
            (Affine(0, (Term(0),)), Affine(0, (Term(1),)), Affine(-1, (Term(2, 2), Term(4))),
             Affine(-1, (Term(3, 2), Term(5)))), True,
        )  # fmt: skip
        return b.contract(b.view(x, windows), w, ((0, 1, 2, 3, 4, 5), (6, 1, 4, 5)), (0, 6, 2, 3))

    check(graph_of(convolution, reals(2, 3, 5, 5), reals(4, 3, 3, 3)))


def test_windows_of_short_floats_are_summed_in_f32():
    """257 ones do not fit in bf16 one after the other."""
    graph = graph_of(lambda b, x: b.view(x, broadcast((1,), (1,), (300, 1))), (bf16, (1,)))
    inputs = [np.zeros(1, bf16.numpy), np.ones((300, 1), bf16.numpy)]
    found = evaluate(vjp(graph, (0,)), inputs)[1]
    assert found.dtype == bf16.numpy
    assert float(found[0]) == 300


@st.composite
def index_maps(draw: st.DrawFn) -> tuple[IndexMap, tuple[int, ...]]:
    """Draw any map that the data structure can hold."""
    result = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=3)))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=0, max_size=3)))
    axes: list[Affine] = []
    for _ in shape:
        count = draw(st.integers(0, 3)) if result else 0
        terms = tuple(
            Term(
                draw(st.integers(0, len(result) - 1)), draw(st.integers(-3, 3)), draw(st.integers(1, 4)),
                draw(st.integers(0, 4)),
            )
            for _ in range(count)
        )  # fmt: skip
        axes.append(Affine(draw(st.integers(-4, 6)), terms))
    return IndexMap(result, tuple(axes), True), shape


@given(index_maps())
def test_any_map(drawn: tuple[IndexMap, tuple[int, ...]]):
    assert_transposed(*drawn)
