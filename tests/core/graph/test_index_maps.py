"""Index maps: each view reads the elements that NumPy's has, and views of views are one view where they can be."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.graph.index_maps import (
    Affine,
    IndexMap,
    Term,
    broadcast,
    compose,
    identity,
    is_reshape,
    nests,
    orienting,
    reshape,
    transpose,
    window,
)
from tessera.runtime.interpret.rounding import Numbers


def viewed(index_map: IndexMap, x: Numbers) -> Numbers:
    """Read a view element by element, with `Affine.at`."""
    result = np.zeros(index_map.shape, x.dtype)
    for index in itertools.product(*map(range, index_map.shape)):
        place = tuple(affine.at(index) for affine in index_map.axes)
        inside = all(0 <= each < size for each, size in zip(place, x.shape, strict=True))
        assert inside or index_map.padded
        result[index] = x[place] if inside else 0
    return result


def numbered(shape: Sequence[int]) -> Numbers:
    """Every element another number, none of them 0."""
    return np.arange(1, math.prod(shape) + 1).reshape(shape)


shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@st.composite
def reshapes(draw: st.DrawFn, shape: Sequence[int]) -> tuple[int, ...]:
    """Shapes with as many elements."""
    size, found = math.prod(shape), list[int]()
    while size > 1 and len(found) < 3:
        found.append(draw(st.sampled_from([each for each in range(1, size + 1) if size % each == 0])))
        size //= found[-1]
    return (*found, size) if size != 1 or draw(st.booleans()) else tuple(found)


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> IndexMap:
    """Any view of an array of `shape`."""
    kind = draw(st.sampled_from(("transpose", "reshape", "window", "broadcast", "flip", "number")))
    if kind == "transpose":
        return transpose(shape, draw(st.permutations(range(len(shape)))))
    if kind == "reshape":
        wanted = draw(reshapes(shape))
        return reshape(shape, wanted if nests(shape, wanted) else (math.prod(shape),))
    if kind == "window":
        starts = [draw(st.integers(-1, size - 1)) for size in shape]
        steps = [draw(st.sampled_from((1, 2))) for _ in shape]
        return window(shape, starts, steps, [draw(st.integers(1, size + 1)) for size in shape])
    if kind == "flip":
        return window(shape, [size - 1 for size in shape], [-1] * len(shape), shape)
    if kind == "number" and shape:
        first = (Affine(draw(st.integers(0, shape[0] - 1))),)
        return IndexMap(shape[1:], first + tuple(Affine(0, (Term(n),)) for n in range(len(shape) - 1)))
    place = draw(st.integers(0, len(shape)))
    made = (*shape[:place], draw(st.integers(1, 3)), *shape[place:])
    return broadcast(shape, [axis for axis in range(len(made)) if axis != place], made)


@given(shapes)
def test_identity(shape: tuple[int, ...]):
    index_map = identity(shape)
    assert index_map.is_identity(shape)
    assert not index_map.is_identity((*shape, 1))
    assert index_map.permutation == tuple(range(len(shape)))
    assert is_reshape(index_map, shape)
    np.testing.assert_array_equal(viewed(index_map, numbered(shape)), numbered(shape))


@given(shapes, st.data())
def test_transpose(shape: tuple[int, ...], data: st.DataObject):
    order = data.draw(st.permutations(range(len(shape))))
    index_map = transpose(shape, order)
    np.testing.assert_array_equal(viewed(index_map, numbered(shape)), numbered(shape).transpose(order))
    found = index_map.permutation
    assert found is not None
    assert [found[axis] for axis in order] == list(range(len(shape)))


@given(shapes, st.data())
def test_reshape(shape: tuple[int, ...], data: st.DataObject):
    wanted = data.draw(reshapes(shape))
    if nests(shape, wanted):
        index_map = reshape(shape, wanted)
        assert is_reshape(index_map, shape)
        np.testing.assert_array_equal(viewed(index_map, numbered(shape)), numbered(shape).reshape(wanted))
    else:
        flat = (math.prod(shape),)
        assert nests(shape, flat)
        assert nests(flat, wanted)
        with pytest.raises(ValueError, match="do not nest"):
            reshape(shape, wanted)


def test_reshape_of_different_sizes():
    with pytest.raises(ValueError, match="has not as many elements"):
        reshape((2, 3), (7,))
    assert nests((2, 3), (7,))


def test_extents_that_do_not_nest():
    assert not nests((2, 3), (3, 2))
    assert nests((4, 6), (2, 2, 6))
    assert nests((4, 6), (24,))
    assert nests((24,), (2, 3, 4))


@pytest.mark.parametrize(("shape", "wanted"), [((0,), (3, 0)), ((2, 0, 3), (0,)), ((0, 5), (5, 0))])
def test_reshape_of_nothing(shape: tuple[int, ...], wanted: tuple[int, ...]):
    index_map = reshape(shape, wanted)
    assert index_map.shape == wanted
    assert is_reshape(index_map, shape)


@given(shapes, st.data())
def test_window(shape: tuple[int, ...], data: st.DataObject):
    starts = [data.draw(st.integers(-3, size + 2)) for size in shape]
    steps = [data.draw(st.sampled_from((-2, -1, 1, 2, 3))) for _ in shape]
    extents = [data.draw(st.integers(0, 5)) for _ in shape]
    index_map = window(shape, starts, steps, extents)
    padded = np.pad(numbered(shape), 20)
    picks = [20 + start + step * np.arange(extent) for start, step, extent in zip(starts, steps, extents, strict=True)]
    np.testing.assert_array_equal(viewed(index_map, numbered(shape)), padded[np.ix_(*picks)] if picks else padded)
    if not index_map.padded or 0 in extents:
        viewed(IndexMap(index_map.shape, index_map.axes), numbered(shape))  # nothing lies outside


def test_a_window_that_stays_inside_is_not_padded():
    assert not window((8,), (1,), (2,), (4,)).padded
    assert window((8,), (2,), (2,), (4,)).padded
    assert window((8,), (-1,), (1,), (4,)).padded
    assert not window((8,), (9,), (1,), (0,)).padded


@given(shapes, st.data())
def test_broadcast(shape: tuple[int, ...], data: st.DataObject):
    rank = len(shape) + data.draw(st.integers(0, 2))
    places = data.draw(st.permutations(range(rank)))[: len(shape)]
    result = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    for size, place in zip(shape, places, strict=True):
        result[place] = data.draw(st.integers(1, 3)) if size == 1 else size
    order = sorted(range(len(shape)), key=lambda axis: places[axis])
    aligned = numbered(shape).transpose(order)
    spread = [shape[places.index(axis)] if axis in places else 1 for axis in range(rank)]
    wanted = np.broadcast_to(aligned.reshape(spread), result)
    np.testing.assert_array_equal(viewed(broadcast(shape, places, result), numbered(shape)), wanted)


@given(shapes, st.data())
def test_views_of_views_are_one_view(shape: tuple[int, ...], data: st.DataObject):
    inner = data.draw(views(shape))
    outer = data.draw(views(inner.shape))
    together = compose(outer, inner)
    if together is not None:
        x = numbered(shape)
        np.testing.assert_array_equal(viewed(together, x), viewed(outer, viewed(inner, x)))


@given(shapes, st.data())
def test_transpositions_and_windows_always_compose(shape: tuple[int, ...], data: st.DataObject):
    inner = data.draw(views(shape))
    order = data.draw(st.permutations(range(len(inner.shape))))
    assert compose(transpose(inner.shape, order), inner) is not None
    assert compose(identity(inner.shape), inner) == inner


def test_padding_does_not_compose():
    """Outside of the inner view there is 0, whatever the array has there."""
    inner = window((8,), (2,), (1,), (4,))
    assert compose(window((4,), (-1,), (1,), (6,)), inner) is None
    assert compose(window((4,), (1,), (1,), (2,)), inner) == window((8,), (3,), (1,), (2,))


def test_a_quotient_of_a_sum_does_not_compose():
    inner = reshape((12,), (3, 4))
    split = reshape((3, 4), (12,))
    assert compose(split, inner) is None or viewed_is_identity(compose(split, inner), 12)
    shifted = window((12,), (1,), (1,), (6,))
    assert compose(shifted, reshape((3, 4), (12,))) is None


def viewed_is_identity(index_map: IndexMap | None, size: int) -> bool:
    assert index_map is not None
    return bool((viewed(index_map, numbered((size,))) == numbered((size,))).all())


@given(shapes, st.data())
def test_orienting(shape: tuple[int, ...], data: st.DataObject):
    """After the permutation, the view is a reshape of the same elements."""
    turned = transpose(shape, data.draw(st.permutations(range(len(shape)))))
    wanted = data.draw(reshapes(turned.shape))
    if not nests(turned.shape, wanted):
        return
    index_map = compose(reshape(turned.shape, wanted), turned)
    assert index_map is not None
    order = orienting(index_map, shape)
    if order is not None:
        x = numbered(shape)
        np.testing.assert_array_equal(x.transpose(order).reshape(index_map.shape), viewed(index_map, x))


def test_heads_that_are_transposed_and_joined():
    shape = (2, 4, 5, 8)  # batch, heads, length, width
    index_map = compose(reshape((2, 5, 4, 8), (2, 5, 32)), transpose(shape, (0, 2, 1, 3)))
    assert index_map is not None
    assert not is_reshape(index_map, shape)
    assert orienting(index_map, shape) == (0, 2, 1, 3)


@pytest.mark.parametrize(
    "index_map",
    [window((4,), (-1,), (1,), (4,)), window((4,), (1,), (1,), (3,)), broadcast((4,), (0,), (4, 2)),
     window((4,), (3,), (-1,), (4,))],
)  # fmt: skip
def test_views_that_no_permutation_makes_a_reshape(index_map: IndexMap):
    assert orienting(index_map, (4,)) is None
    assert not is_reshape(index_map, (4,))


def test_affine():
    affine = Affine(3, (Term(0, 2), Term(1, 5, 4, 3)))
    assert affine.at((7, 22)) == 3 + 14 + 5 * (22 // 4 % 3)
    assert affine.axis is None
    assert Affine(0, (Term(4),)).axis == 4
    assert Affine(1, (Term(4),)).axis is None
    assert Affine(0, (Term(4, 2),)).axis is None
    assert Affine().axis is None


def test_a_view_that_repeats_is_no_permutation():
    assert broadcast((3,), (0,), (3, 2)).permutation is None
    assert IndexMap((3,), (Affine(0, (Term(0),)), Affine(0, (Term(0),)))).permutation is None
