"""The layered layout; what every layout must be is in test_layout."""

from tessera.viz.graph.layered import acyclic, layered
from tessera.viz.graph.placing import Item, Scope


def scope(count: int, *links: tuple[int, int]) -> Scope:
    return Scope(tuple(Item(str(n), 40, 20) for n in range(count)), tuple((str(a), str(b)) for a, b in links))


def test_cycles_are_opened_where_the_program_closes_them():
    assert acyclic(scope(3, (0, 1), (1, 2), (2, 0), (1, 1))) == [("0", "1"), ("1", "2")]


def test_layers_are_longest_paths_and_sources_stand_near():
    rows = layered(scope(5, (0, 1), (1, 2), (0, 2), (3, 2), (2, 4)))
    assert [[slot.id for slot in row if not slot.to] for row in rows] == [["0"], ["1", "3"], ["2"], ["4"]]
    # The edge from 0 to 2 passes the row between them on a way of its own.
    assert [(slot.id, slot.to) for slot in rows[1] if slot.to] == [("0", "2")]


def test_a_chain_is_straight_and_branches_do_not_cross():
    rows = layered(scope(4, (0, 1), (1, 2), (2, 3)))
    assert len({slot.x for row in rows for slot in row}) == 1
    crossed = layered(scope(4, (0, 3), (1, 2)))
    at = {slot.id: slot.x for row in crossed for slot in row}
    assert (at["0"] < at["1"]) == (at["3"] < at["2"])
