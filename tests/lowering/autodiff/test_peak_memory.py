"""Bytes that are alive at once."""

from support.gradients import graph_of, reals
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.lowering.autodiff.peak_memory import peak_memory

ROW = 8 * 100


def test_a_chain_holds_two_values_and_its_input():
    def chain(b: GraphBuilder, x: Value) -> Value:
        for _ in range(4):
            x = b.unary("sin", x)
        return x

    assert peak_memory(graph_of(chain, reals(100))) == 3 * ROW


def test_a_value_lives_until_it_is_read_last():
    def skip(b: GraphBuilder, x: Value) -> Value:
        early = b.unary("sin", x)
        late = b.unary("exp", b.unary("cos", x))
        return b.binary("add", early, late)

    assert peak_memory(graph_of(skip, reals(100))) == 4 * ROW


def test_views_are_no_memory_but_keep_what_they_read():
    def views(b: GraphBuilder, x: Value) -> Value:
        y = b.reshape(b.unary("sin", x), (10, 10))
        z = b.reduce(b.unary("cos", b.unary("cos", x)), (0,))
        return b.binary("add", b.reduce(y, (0, 1)), z)

    assert peak_memory(graph_of(views, reals(100))) == 4 * ROW


def test_outputs_stay_and_what_nothing_reads_goes():
    def outputs(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        b.unary("tanh", x)
        one = b.unary("sin", x)
        return one, b.transpose(one, (0,)), b.unary("cos", x), b.copy(x)

    assert peak_memory(graph_of(outputs, reals(100))) == 4 * ROW
