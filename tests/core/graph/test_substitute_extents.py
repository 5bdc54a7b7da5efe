"""Numbers in the place of symbols: everywhere, once, and nowhere else."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.extents import Symbols
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.graph_key import graph_key
from tessera.core.graph.substitute_extents import Substitution
from tessera.core.graph.text import to_text
from tessera.core.schedule.text import plan_text
from tessera.lowering.schedule.plan_graph import plan_graph


def built(n: int, m: int) -> Graph:
    def rows(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
        scores = b.contract(x, y, ((0, 2), (1, 2)), (0, 1))
        return b.reduce(b.unary("exp", scores), (1,)), b.reshape(scores, (n * m,)), b.unary("exp", y)

    return graph_of(rows, (f32, (n, 64)), (f32, (m, 64)))


def test_a_graph_and_its_plan_are_those_of_the_numbers():
    symbols = Symbols(("n", "m"), (48, 40))
    graph = built(*symbols.extents)
    plan = plan_graph(graph)
    symbols.close()
    text = to_text(graph)
    assert 'tensor<?x64xf32, "n">' in text
    assert 'tensor<?xf32, "n*m">' in text
    for values in ((48, 40), (96, 33), (50, 3)):
        unknowns = symbols.values(values)
        assert unknowns is not None
        made, planned = Substitution(unknowns)((graph, plan))
        alone = built(*values)
        assert graph_key(made) == graph_key(alone)
        assert plan_text(planned) == plan_text(plan_graph(alone))
        assert planned.graph.inputs == made.inputs
        assert all(type(extent) is int for value in made.inputs for extent in value.type.shape)
    assert to_text(graph) == text


def test_what_has_no_symbol_stays_the_object_that_it_is():
    graph = built(8, 8)
    assert Substitution(())(graph) is graph
    parts = ({"a": (1, 2.0, None)}, frozenset({3}), [graph])
    assert Substitution(())(parts) is parts
