"""Keys of graphs: equal for the same graph built again, and for no other."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f16, f32, i32
from tessera.core.base.source import Source, Span
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Origin, Routine, Tensor, Value
from tessera.core.graph.graph_key import graph_key
from tessera.core.graph.index_maps import window
from tessera.core.graph.numerics import Numerics, fp4
from tessera.core.program.program import Attribute


def chain(shape: tuple[int, ...] = (3, 4), number: float = 2.0) -> Graph:
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.reduce(b.scaled(b.transpose(b.unary("exp", x), (1, 0)), number), (0,))

    return graph_of(make, (f32, shape))


def with_node(graph: Graph, place: int, **changes: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[place] = replace(nodes[place], **changes)  # type: ignore[arg-type]  # the fields that a test changes
    return replace(graph, nodes=tuple(nodes))


def test_the_same_graph_built_again():
    first, second = chain(), chain()
    assert first.nodes[0] is not second.nodes[0]
    assert graph_key(first) == graph_key(second)
    assert hash(graph_key(first)) == hash(graph_key(second))


PLACE = Span("cell", 3, 1, 3, 9)
OTHERS: dict[str, Callable[[], Graph]] = {
    "shape": lambda: chain((4, 3)),
    "number": lambda: chain(number=3.0),
    "sign of zero": lambda: chain(number=-0.0),
    "name": lambda: replace(chain(), name="other"),
    "text": lambda: replace(chain(), source=Source("cell", "text")),
    "place": lambda: replace(chain(), span=PLACE),
    "dtype": lambda: graph_of(lambda b, x: b.unary("exp", x), (f16, (3, 4))),
    "a node's number": lambda: with_node(chain(), 3, ident=99),
    "a node's place": lambda: with_node(chain(), 1, span=PLACE),
    "a node's history": lambda: with_node(chain(), 1, origin=Origin("", (), ("layer", "exp"))),
    "an attribute": lambda: with_node(chain(), 3, attributes={"axes": (0,), "kind": "max"}),
    "a view": lambda: with_node(chain(), 1, body=window((3, 4), (0, 0), (1, 1), (4, 3))),
    "outputs": lambda: replace(chain(), outputs=()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_graphs(name: str):
    assert graph_key(OTHERS[name]()) != graph_key(chain())
    assert graph_key(OTHERS[name]()) == graph_key(OTHERS[name]())


def test_inputs_with_other_names_and_numerics():
    def graph(name: str, numerics: Numerics | None = None) -> Graph:
        x = Value(Tensor(f32, (3,)), name, numerics=numerics)
        build = GraphBuilder()
        return build.finish("g", [x], [build.unary("exp", x)])

    keys = {graph_key(graph("x")), graph_key(graph("y")), graph_key(graph("x", Numerics(fp4)))}
    assert len(keys) == 3
    assert graph_key(graph("y")) in keys


def test_which_operand_is_which():
    def graph(*, turned: bool) -> Graph:
        def make(b: GraphBuilder, x: Value, y: Value) -> Value:
            return b.binary("sub", y, x) if turned else b.binary("sub", x, y)

        return graph_of(make, (f32, (3,)), (f32, (3,)))

    assert graph_key(graph(turned=True)) != graph_key(graph(turned=False))


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), (1.0, 2)), ("1", 1)])
def test_attributes_that_python_calls_equal(first: Attribute, second: Attribute):
    routine = Routine("r", types=lambda given, _: given)

    def graph(value: Attribute) -> Graph:
        return graph_of(lambda b, x: b.call(routine, [x], option=value)[0], (f32, (3,)))

    assert graph_key(graph(first)) == graph_key(graph(first))
    assert graph_key(graph(first)) != graph_key(graph(second))


@pytest.mark.parametrize(("first", "second"), [(0.0, -0.0), (1.0, 1.5)])
def test_numbers_in_bodies(first: float, second: float):
    def graph(number: float) -> Graph:
        body = apply("mul", Argument(0, f32), Literal(number, f32))
        return graph_of(lambda b, x: b.elementwise(body, [x]), (f32, (3,)))

    assert graph_key(graph(first)) != graph_key(graph(second))
    assert graph_key(graph(float("nan"))) == graph_key(graph(float("nan")))


def test_routines():
    def graph(routine: Routine) -> Graph:
        return graph_of(lambda b, x: b.call(routine, [x])[0], (f32, (3, 4)))

    def opaque() -> Routine:
        return Routine("r", types=lambda given, _: given)

    def defined(number: float, adjoint: object = None) -> Routine:
        return Routine("r", definition=chain(number=number), adjoint=adjoint)  # type: ignore[arg-type]

    one = opaque()
    assert graph_key(graph(one)) == graph_key(graph(one))
    assert graph_key(graph(one)) != graph_key(graph(opaque()))
    assert graph_key(graph(defined(2.0))) == graph_key(graph(defined(2.0, lambda *_: [])))
    assert graph_key(graph(defined(2.0))) != graph_key(graph(defined(3.0)))


def test_bodies_of_branches():
    def graph(number: float) -> Graph:
        build = GraphBuilder()
        test, x = Value(Tensor(i32, ()), "t"), Value(Tensor(f32, (3, 4)), "x")
        holds = build.binary("add", test, test)
        sides = chain(number=number), chain()
        chosen = build.elementwise(apply("cmp", *(Argument(0, i32),) * 2, predicate="eq"), [holds])
        return build.finish("g", [test, x], list(build.add_all("branch", [chosen, x], sides)))

    assert graph_key(graph(2.0)) == graph_key(graph(2.0))
    assert graph_key(graph(2.0)) != graph_key(graph(3.0))
