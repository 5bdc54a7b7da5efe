"""Choice by plans: the planner's kernels decide where the outline of prices is wrong."""

from support.gradients import graph_of
from support.rewriting import block_graph
from tessera.core.base.dtypes import bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.permissions import ALGEBRA
from tessera.graphs.plan_choice import cheapest_plan, plan_price, prepared
from tessera.lowering.graph.egraph.reference_costs import ELEMENTWISE, LAUNCH, PICO, moving_time
from tessera.lowering.graph.rewrite import rewrite
from tessera.lowering.schedule.plan_graph import plan_graph


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, ((0, 1), (1, 2)), (0, 2))


def priced(built: Graph) -> int:
    return plan_price(plan_graph(prepared(built)))


def test_prices_of_plans():
    large = graph_of(product, (bf16, (4096, 4096)), (bf16, (4096, 4096)))
    assert priced(large) == LAUNCH + 2 * 4096**3 * PICO // 700_000_000_000_000
    assert priced(graph_of(lambda b, x: b.unary("exp", x), (f32, (1 << 20,)))) == LAUNCH + moving_time(8 << 20)
    many = graph_of(lambda b, x: b.reduce(b.unary("exp", x), (0,)), (f32, (1024, 1024)))
    assert priced(many) >= LAUNCH + max(moving_time(4 << 20), 2 * 1024 * 1024 * PICO // ELEMENTWISE)


def test_the_cheapest_plan_is_taken_and_the_first_of_equals():
    one = graph_of(lambda b, x: b.unary("exp", x), (f32, (64,)))
    two = graph_of(lambda b, x: b.unary("exp", b.reduce(x, (0,))), (f32, (64, 64)))
    assert cheapest_plan([two, one, one]).place == 1
    found = cheapest_plan([one])
    assert (found.place, found.graph.outputs) == (0, one.outputs)


def test_attention_stays_one_kernel_whatever_is_permitted():
    """Division by the row sums could be behind the product; the planner has a kernel for the graph as it is."""
    built = block_graph()
    for allowed in ((), {"reassociate"}, ALGEBRA):
        made = rewrite(built, allowed)
        chosen = cheapest_plan(made.candidates)
        assert plan_price(chosen.plan) <= priced(built)
        kernels = [group.name for group in chosen.plan.groups]
        assert any("softmax" in name and "matmul" in name for name in kernels)
        assert len(kernels) < len(plan_graph(prepared(built)).groups)
