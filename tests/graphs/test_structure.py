"""Nested arguments as lists of arrays, and back."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.operators import Array
from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.structure import (
    Branch,
    Leaf,
    NumberLeaf,
    Static,
    flatten,
    leaves_in,
    matcher,
    names_of,
    number_places,
    numbers_in,
    numbers_of,
    unflatten,
    with_number_leaves,
)


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True)
class Layer:
    w: object
    size: int


def there_and_back(value: Array) -> Array:
    leaves: list[object] = []
    structure = flatten(value, leaves)
    assert leaves_in(structure) == len(leaves) == len(names_of(structure, "x"))
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    rest = iter(leaves)
    return unflatten(structure, lambda: next(rest))


X = np.zeros(3)
VALUES = st.recursive(
    st.sampled_from([X, 1, 1.0, True, "text", None]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3), st.tuples(inner, inner).map(lambda two: Pair(*two)),
        st.tuples(inner, st.integers()).map(lambda two: Layer(*two)),
    ),
    max_leaves=6,
)  # fmt: skip


@given(VALUES)
def test_everything_comes_back(value: object):
    made = there_and_back(value)
    assert repr(made) == repr(value)
    assert type(made) is type(value)


def test_arrays_come_back_as_they_were_arranged():
    made = there_and_back({"layers": [Layer(X, 3), Layer(X, 4)], "pair": Pair(X, (X, 2))})
    assert isinstance(made, dict)
    assert made["layers"][1].w is X
    assert made["pair"].right == (X, 2)


def test_numbers_of_different_types_are_different_programs():
    found = {flatten(value, []) for value in (1, 1.0, True)}
    assert len(found) == 3
    assert flatten(np.int64(1), []) == flatten(1, [])
    assert flatten(np.float32(1), []) == flatten(np.float32(1), []) != flatten(1.0, [])  # it has a dtype


def test_an_array_without_axes_is_an_array():
    leaves: list[object] = []
    assert flatten(np.array(3.0), leaves) == Leaf()
    assert len(leaves) == 1


def test_names_say_where_an_array_stands():
    structure = flatten({"w": (X, X), "n": 3, "b": X}, [])
    assert names_of(structure, "p") == ["p_w_0", "p_w_1", "p_b"]
    assert isinstance(structure, Branch)
    assert structure.children[1] == Static(3, int)


def test_what_can_change_unseen_is_refused():
    with pytest.raises(CannotTrace, match="set is neither an array nor something that stays the same") as raised:
        flatten([{1, 2}], [])
    assert "try: pass arrays, numbers, strings" in str(raised.value)


def test_signs_of_zero_are_parts_of_the_program():
    assert flatten(0.0, []) != flatten(-0.0, [])
    assert flatten((X, 1.5), []) == flatten((X, 1.5), [])


@given(VALUES, VALUES)
def test_a_matcher_takes_what_is_arranged_in_the_same_way(value: object, other: object):
    leaves: list[object] = []
    structure = flatten(value, leaves)
    for each in (value, other):
        wanted: list[object] = []
        same = flatten(each, wanted) == structure
        found: list[object] = []
        if matcher(structure)(each, found):
            # It leaves to the caller what stands in the places of arrays.
            assert same or any(not isinstance(leaf, np.ndarray) for leaf in found)
            assert [id(leaf) for leaf in found] == [id(leaf) for leaf in wanted] or not same
        else:
            assert not same


@pytest.mark.parametrize(("value", "other"), [
    (1, True), (1, 1.0), (0.0, -0.0), ("a", "b"), (None, 0), ((X,), [X]), ((X, X), (X,)), ({"a": X}, {"b": X}),
    ({"a": X, "b": X}, {"b": X, "a": X}), ({"a": (X, 1)}, {"a": (X, 2)}), (Pair(X, 1), (X, 1)), (Layer(X, 1), Layer(X, 2)),
    (X, [[1]]), ((X, 1), (X, [])),
])  # fmt: skip
def test_a_matcher_refuses_others(value: object, other: object):
    leaves: list[object] = []
    match, found = matcher(flatten(value, leaves)), list[object]()
    assert match(value, found)
    assert all(a is b for a, b in zip(found, leaves, strict=True))
    found.clear()
    assert not match(other, found) or not isinstance(found[0], np.ndarray)


def test_places_of_numbers():
    leaves: list[object] = []
    x = np.ones(3)
    structure = flatten((x, 1, {"rate": 0.5, "flag": True, "name": "a", "both": [2.5, np.float32(1)]}), leaves)
    assert [each.value for each in numbers_of(structure)] == [1, 0.5, 2.5]
    general = with_number_leaves(structure, {0, 2})
    assert [isinstance(each, NumberLeaf) for each in numbers_of(general)] == [True, False, True]
    assert numbers_in(general, structure) == [1, 2.5]
    other = flatten((x, -7, {"rate": 0.5, "flag": True, "name": "a", "both": [9.0, np.float32(1)]}), [])
    assert numbers_in(general, other) == [-7, 9.0]
    assert general == with_number_leaves(other, {0, 2})
    assert hash(general) == hash(with_number_leaves(other, {0, 2}))
    assert general != structure
    match, appended = matcher(general), list[object]()
    assert match((x, 4, {"rate": 0.5, "flag": True, "name": "a", "both": [8.5, np.float32(1)]}), appended)
    assert appended == [x, 4, 8.5]
    assert number_places(general) == [False, True, True]
    for one, other in ((4.0, 8.5), (4, 8), (True, 8.5), (x, 8.5)):
        assert not match((x, one, {"rate": 0.5, "flag": True, "name": "a", "both": [other, np.float32(1)]}), [])
    for changed in (
        (x, 1.0, {"rate": 0.5, "flag": True, "name": "a", "both": [2.5, np.float32(1)]}),
        (x, 1, {"rate": 0.25, "flag": True, "name": "a", "both": [2.5, np.float32(1)]}),
        (x, 1, {"rate": 0.5, "flag": False, "name": "a", "both": [2.5, np.float32(1)]}),
        (x, 1, {"rate": 0.5, "flag": True, "name": "a", "both": [2.5]}),
        (x, True, {"rate": 0.5, "flag": True, "name": "a", "both": [2.5, np.float32(1)]}),
        (x, x, {"rate": 0.5, "flag": True, "name": "a", "both": [2.5, np.float32(1)]}),
    ):
        assert numbers_in(general, flatten(changed, [])) is None
