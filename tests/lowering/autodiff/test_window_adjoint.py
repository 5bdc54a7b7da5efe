"""Transposes of products of windows: products of the cotangent's windows, whatever the stride, dilation and layout."""

import pytest

from support.gradients import Make, check, graph_of, reals
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.lowering.autodiff.reverse import grad


def windows(size: int, taps: int, stride: int, dilation: int, padding: int) -> tuple[int, Affine]:
    """The windows of a row, and their index of a window (axis 1) and a tap (axis 2)."""
    count = (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
    return count, Affine(-padding, (Term(1, stride), Term(2, dilation)))


def convolution(size: int, taps: int, stride: int = 1, dilation: int = 1, padding: int = 0) -> Make:
    """[batch, pixel, channel] with [filter, tap, channel]."""
    count, index = windows(size, taps, stride, dilation, padding)

    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        batch, _, channels = x.type.shape
        view = IndexMap((batch, count, taps, channels), (Affine(0, (Term(0),)), index, Affine(0, (Term(3),))), True)
        return total(b, b.contract(b.view(x, view), w, ((0, 1, 2, 3), (4, 2, 3)), (0, 1, 4)))

    return make


def total(b: GraphBuilder, value: Value) -> Value:
    """A number whose derivative differs from element to element."""
    return b.reduce(b.binary("mul", value, value), range(len(value.type.shape)))


CASES = {
    "plain": (7, 3), "padded": (7, 3, 1, 1, 1), "stride": (9, 3, 2), "stride and padding": (8, 3, 2, 1, 1),
    "dilation": (9, 3, 1, 2, 2), "all": (11, 3, 3, 2, 3), "pixels that no window reads": (10, 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_convolutions(case: str):
    size, taps, *_ = CASES[case]
    check(graph_of(convolution(*CASES[case]), reals(2, size, 3), reals(4, taps, 3)))


def test_no_window_of_the_cotangent_is_written():
    """The cotangent of the windows themselves has an axis of taps; nothing is added up but by the product."""
    made = grad(graph_of(convolution(7, 3, padding=1), reals(2, 7, 3), reals(4, 3, 3)), (0,))
    (image,) = made.outputs
    assert made.producers[image].op == "contract"
    assert not any(node.op == "reduce" and len(node.result.type.shape) == 3 for node in made.nodes)


def test_groups_of_channels():
    """[batch, pixel, channel] with [group, filter, tap, channel of the group]."""

    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        view = IndexMap(
            (2, 5, 2, 3, 3),
            (Affine(0, (Term(0),)), Affine(-1, (Term(1), Term(3))), Affine(0, (Term(2, 3), Term(4)))), True,
        )  # fmt: skip
        return total(b, b.contract(b.view(x, view), w, ((0, 1, 2, 3, 4), (2, 5, 3, 4)), (0, 1, 2, 5)))

    check(graph_of(make, reals(2, 5, 6), reals(2, 4, 3, 3)))


def test_windows_that_are_read_twice_are_pulled_back_by_both():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        view = IndexMap((5, 3, 2), (Affine(-1, (Term(0), Term(1))), Affine(0, (Term(2),))), True)
        seen = b.view(x, view)
        product = b.contract(seen, w, ((0, 1, 2), (3, 1, 2)), (0, 3))
        return b.binary("add", total(b, product), total(b, seen))

    check(graph_of(make, reals(5, 2), reals(4, 3, 2)))


def test_windows_whose_places_are_summed_are_viewed_back():
    """The gradient by the filter sums over places: its own derivative has to be that of a view."""

    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        view = IndexMap((5, 3, 2), (Affine(-1, (Term(0), Term(1))), Affine(0, (Term(2),))), True)
        return total(b, b.contract(b.view(x, view), y, ((0, 1, 2), (0, 3)), (3, 1, 2)))

    check(graph_of(make, reals(5, 2), reals(5, 4)))
