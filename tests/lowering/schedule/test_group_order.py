"""Groups in topological order: paths between groups that grow and merge, against a search through all edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.lowering.schedule.group_order import GroupOrder, NoKernel


def _before(edges: dict[int, set[int]], number: int) -> set[int]:
    """Return all ancestors, by a search through all edges."""
    seen, stack = set[int](), [number]
    while stack:
        new = edges[stack.pop()] - seen
        seen |= new
        stack += new
    return seen


@given(st.data())
def test_paths_are_those_of_a_full_search(data: st.DataObject) -> None:
    """Start, add, replace and merge at random, as long as no circle comes of it; every pair is asked after each."""
    order, edges = GroupOrder(), dict[int, set[int]]()
    for number in range(data.draw(st.integers(2, 12), label="steps")):
        numbers = sorted(edges)
        edges[number] = set(data.draw(st.lists(st.sampled_from(numbers), max_size=3))) if numbers else set()
        order.start(number, edges[number])
        target = data.draw(st.sampled_from(sorted(edges)))
        harmless = [each for each in edges if each != target and target not in _before(edges, each)]
        more = set(data.draw(st.lists(st.sampled_from(harmless), max_size=2))) if harmless else set[int]()
        if data.draw(st.booleans()):
            order.add(target, more)
            edges[target] |= more
        else:
            order.replace(target, more)
            edges[target] = more
        _merge(data, order, edges)
        for one in edges:
            assert order.sources(one) == edges[one]
            assert order.all_before(one) == _before(edges, one)
            for two in edges:
                assert order.needs([one], {two}) == (two in _before(edges, one))
    rebuilt = GroupOrder(edges)
    assert all(rebuilt.needs([one], {two}) == order.needs([one], {two}) for one in edges for two in edges)


def _merge(data: st.DataObject, order: GroupOrder, edges: dict[int, set[int]]) -> None:
    """Merge a group and one that it reads, where no third group lies between them."""
    pairs = [
        (one, two) for one in edges for two in edges[one]
        if not any(two in _before(edges, other) for other in edges[one] - {two})
    ]  # fmt: skip
    if not pairs or not data.draw(st.booleans()):
        return
    target, other = data.draw(st.sampled_from(pairs))
    order.merge(target, [other])
    edges[target] = (edges[target] | edges.pop(other)) - {target, other}
    for number, sources in edges.items():
        if other in sources:
            edges[number] = sources - {other} | {target}


def test_groups_that_read_each_other_are_refused() -> None:
    """An edge that closes a circle raises, before levels rise without end."""
    order = GroupOrder({0: [], 1: [0], 2: [1]})
    with pytest.raises(NoKernel, match="read each other"):
        order.add(0, [2])


def test_what_no_group_makes_is_refused() -> None:
    """A number that no group has raises."""
    with pytest.raises(NoKernel, match="no other makes"):
        GroupOrder().needs([7], {1})
