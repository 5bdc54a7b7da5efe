"""Plans as data: names of kernels."""

from tessera.core.base.dtypes import f32
from tessera.core.graph.graph import Node, Origin, Tensor, Value
from tessera.core.schedule.plan import ELEMENTS, MAPS, PRODUCT, ROW_LIMIT, ROWS, SCATTER, Access, Group


def group(*composites: tuple[str, ...]) -> Group:
    nodes = tuple(
        Node("iota", (), (Value(Tensor(f32, ())),), {"extent": 1}, None, number, Origin(composite=composite))
        for number, composite in enumerate(composites)
    )
    return Group(0, MAPS, nodes, (), (), (), {}, {}, {})


def test_kernels_are_named_after_the_innermost_operators():
    assert (
        group(("block", "attention"), ("block", "attention", "softmax.1"), ("gelu.2",)).name == "attention_softmax_gelu"
    )


def test_each_operator_is_named_once():
    assert group(("gelu",), ("gelu.1",), ("block", "gelu.2")).name == "gelu"


def test_kernels_without_operators_are_named_after_their_kind():
    assert group((), ()).name == "maps"
    assert group().name == "maps"


def test_long_names_end():
    assert len(group(*((f"operator{number}",) for number in range(20))).name) == 60


def test_kinds_differ():
    assert len({ELEMENTS, MAPS, SCATTER, ROWS, PRODUCT}) == 5
    assert ROW_LIMIT & (ROW_LIMIT - 1) == 0


def test_an_access_is_inside_unless_it_says_so():
    assert not Access((3,), ()).padded
