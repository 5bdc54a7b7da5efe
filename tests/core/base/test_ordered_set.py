"""Sets that keep the order of their elements."""

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.ordered_set import OrderedSet

ELEMENTS = st.lists(st.integers(0, 20))


@given(ELEMENTS, ELEMENTS)
def test_it_is_a_set(a: list[int], b: list[int]):
    one, other = OrderedSet(a), OrderedSet(b)
    assert set(one) == set(a)
    assert set(one | other) == set(one.union(other)) == set(a) | set(b)
    assert set(one & other) == set(one.intersection(b)) == set(a) & set(b)
    assert set(one - other) == set(one.difference(b)) == set(a) - set(b)
    assert (one <= other) == (set(a) <= set(b))
    assert (one == other) == (set(a) == set(b))
    assert one == frozenset(a)
    assert hash(one) == hash(frozenset(a))


@given(ELEMENTS, ELEMENTS)
def test_elements_come_in_the_order_in_which_they_were_named(a: list[int], b: list[int]):
    assert list(OrderedSet(a)) == list(dict.fromkeys(a))
    assert list(OrderedSet(a) | OrderedSet(b)) == list(OrderedSet(a).union(b)) == list(dict.fromkeys([*a, *b]))
    assert list(OrderedSet(a) - OrderedSet(b)) == [one for one in dict.fromkeys(a) if one not in b]


def test_an_intersection_comes_in_the_order_of_the_smaller_one():
    assert list(OrderedSet([3, 1, 2]) & OrderedSet([2, 3])) == [2, 3]
    assert list(OrderedSet([3, 1]) & OrderedSet([1, 2, 3])) == [3, 1]


def test_it_shows_its_elements():
    assert repr(OrderedSet("ba")) == "OrderedSet(['b', 'a'])"
