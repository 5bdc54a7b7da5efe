"""Reports: rules and lines of what was chosen, what was rejected at which price, what a permission would save."""

from support.gradients import graph_of
from support.rewriting import block_graph
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.graph.explain import explain
from tessera.lowering.graph.rewrite import rewrite


def chain() -> Graph:
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        def product(left: Value, right: Value) -> Value:
            return b.contract(left, right, ((0, 1), (1, 2)), (0, 2))

        return product(product(x, y), z)

    return graph_of(make, (f32, (512, 512)), (f32, (512, 512)), (f32, (512, 4)))


def test_what_a_permission_would_save():
    found = explain(chain(), ())
    assert found.chosen.rules == ()
    assert found.chosen.price == found.before
    ((name, price),) = found.with_permission
    assert name == "reassociate"
    assert price == rewrite(chain(), {"reassociate"}).after
    assert "algebra='reassociate': 2.13 x faster, 64.5 x fewer FLOPs" in str(found)


def test_what_was_chosen_and_rejected():
    found = explain(chain(), {"reassociate"})
    assert found.algebra == ("reassociate",)
    assert found.chosen.rules == ("chain-order",)
    assert found.chosen.classes == ("reassociate",)
    assert [each.rules for each in found.rejected] == [()]
    assert found.rejected[0].price == found.before
    text = str(found)
    assert "chain-order [reassociate]" in text
    assert "Multiply a chain of products in another order" in text
    assert "the graph as it is" in text
    assert found.with_permission == ()


def test_the_users_lines():
    found = explain(block_graph(), {"reassociate", "fold"})
    assert "merge-siblings" in found.chosen.rules
    assert all(found.chosen.lines[found.chosen.rules.index("merge-siblings")])
    rejected = {rule for each in found.rejected for rule in each.rules}
    assert "gains-across-products" in rejected
    assert ", line" in str(found)
    prices = [each.price for each in found.rejected]
    assert prices == sorted(prices)


def test_another_candidate_was_taken():
    candidates = rewrite(chain(), {"reassociate"}).candidates
    found = explain(chain(), {"reassociate"}, len(candidates) - 1)
    assert found.chosen.rules == ()
    assert ("chain-order",) in [each.rules for each in found.rejected]
