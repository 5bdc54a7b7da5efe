"""What readers compute again: the fewest bytes, and never what is in memory anyway."""

from support.gradients import graph_of
from support.graphs import check
from tessera.core.base.dtypes import f16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Node, Value
from tessera.lowering.schedule.form import Members
from tessera.lowering.schedule.made_again import made_again
from tessera.lowering.schedule.plan_graph import plan_graph

X, W = (f16, (24, 16)), (f16, (16, 32))


def chain(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
    """A product that is rounded, and two functions of that in f32."""
    short = b.cast(b.contract(x, w, ((0, 1), (1, 2)), (0, 2)), f16)
    wide = b.cast(short, f32)
    return short, b.unary("exp", wide), b.unary("tanh", wide)


def kernel(make: object = chain) -> tuple[Members, tuple[Value, ...]]:
    graph = graph_of(make, X, W)  # type: ignore[arg-type]  # one of the functions above
    return Members(graph.nodes, graph.inputs, graph.outputs), graph.outputs


def maps(members: Members) -> set[Node]:
    return {node for node in members.nodes if node.op == "map"}


def test_functions_of_a_short_value_are_computed_again():
    members, (short, first, second) = kernel()
    again = made_again(members, members.nodes, [first, second])
    assert {node.result for node in again} == {value for node in maps(members) for value in node.results} - {short}


def test_what_is_the_shortest_itself_is_written():
    members, (short, first, _) = kernel()
    assert not made_again(members, members.nodes, [short])
    assert {node.result for node in made_again(members, members.nodes, [short, first])} >= {first}
    assert not made_again(members, members.nodes, [])


def test_sums_are_not_computed_again():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        return b.unary("exp", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)))

    members, outputs = kernel(make)
    assert not made_again(members, members.nodes, outputs)


def test_a_derivative_reads_the_rounded_product():
    """`exp` and its derivative: one array of 16 bits goes from one product to the other."""

    def make(b: GraphBuilder, x: Value, w: Value) -> tuple[Value, ...]:
        short = b.cast(b.contract(x, w, ((0, 1), (1, 2)), (0, 2)), f16)
        grown = b.unary("exp", b.cast(short, f32))
        forward = b.contract(b.cast(grown, f16), w, ((0, 1), (2, 1)), (0, 2))
        slope = b.unary("tanh", grown)
        back = b.contract(b.cast(forward, f16), w, ((0, 1), (1, 2)), (0, 2))
        return forward, b.binary("mul", back, slope)

    graph = graph_of(make, X, W)
    first, *_ = plan_graph(graph).groups
    assert [value.type.dtype for value in first.outputs] == [f16, f16]
    check(graph_of(chain, X, W), targets=("interpret",))
