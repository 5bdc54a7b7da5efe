"""Rewriting whole graphs: what is found, that one graph has one result, limits, histories, outputs."""

import hashlib
import random
import subprocess
import sys
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings

from support.gradients import graph_of
from support.graphs import assert_same_bits, graphs, normals, small_integers
from support.rewriting import block_graph
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window
from tessera.core.graph.permissions import ALGEBRA
from tessera.core.graph.text import to_text
from tessera.core.graph.verify import verify
from tessera.lowering.graph.rewrite import NODES, rewrite, saturate
from tessera.lowering.graph.rules.table import RULES, permitted
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate

MATMUL: Final = ((0, 1), (1, 2))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def product(b: GraphBuilder, x: Value, w: Value) -> Value:
    return b.contract(x, w, MATMUL, (0, 2))


def close(found: Graph, built: Graph, tolerance: float = 1e-4) -> None:
    """Compare two graphs on random inputs."""
    verify(found)
    inputs = normals([value.type for value in built.inputs])
    for one, other in zip(evaluate(found, inputs), evaluate(built, inputs), strict=True):
        wide = other.astype(np.float64)
        np.testing.assert_allclose(one.astype(np.float64), wide, rtol=tolerance, atol=tolerance * abs(wide).max())


def found_by(built: Graph, *allowed: str, tolerance: float = 1e-4) -> tuple[Graph, tuple[str, ...]]:
    """Rewrite a graph, compare it, and return it simplified, with the rules that made it."""
    made = rewrite(simplify(built), allowed)
    found = simplify(made.graph)
    close(found, built, tolerance)
    return found, made.rules


def attended(b: GraphBuilder, x: Value, weights: Sequence[Value]) -> Value:
    """Queries, keys and values of one operand, multiplied with each other."""
    q, k, v = (product(b, x, w) for w in weights)
    return product(b, b.unary("exp", b.contract(q, k, ((0, 1), (2, 1)), (0, 2))), v)


def test_three_products_of_one_operand_become_one():
    built = graph_of(lambda b, x, *w: attended(b, x, w), (f32, (64, 32)), *[(f32, (32, 16))] * 3)  # type: ignore[misc]
    found, rules = found_by(built)
    assert rules == ("merge-siblings",)
    assert ops(found).count("contract") == 3
    (whole,) = [node for node in found.nodes if node.op == "contract" and node.origin.rule == "merge-siblings"]
    assert whole.result.type.shape == (64, 48)
    assert whole.origin.parents == (0, 1, 2)
    inputs = normals([value.type for value in built.inputs])
    for one, other in zip(evaluate(found, inputs), evaluate(built, inputs), strict=True):
        assert_same_bits(one, other)


def test_weights_that_are_too_large_to_be_joined_stay():
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        return b.unary("exp", product(b, x, w)), b.unary("exp", product(b, x, v))

    built = graph_of(make, (f32, (2, 4096)), *[(f32, (4096, 4096))] * 2)
    assert rewrite(simplify(built)).rules == ()


def test_weights_that_are_parts_of_one_array_are_read_as_they_lie():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        parts = [b.view(w, window(w.type.shape, (0, at), (1, 1), (32, 16))) for at in (0, 16, 32)]
        return attended(b, x, parts)

    found, rules = found_by(graph_of(make, (f32, (64, 32)), (f32, (32, 48))))
    assert rules == ("merge-siblings",)
    assert "concat" not in ops(found)
    assert ops(found).count("contract") == 3


@pytest.mark.parametrize("columns", [1, 4])
def test_chains_are_multiplied_from_the_narrow_end(columns: int):
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return product(b, product(b, x, y), z)

    built = graph_of(make, (f32, (64, 96)), (f32, (96, 80)), (f32, (80, columns)))
    assert ops(found_by(built)[0]) == ops(simplify(built))
    found, rules = found_by(built, "reassociate")
    assert rules == ("chain-order",)
    first = next(node for node in found.nodes if node.op == "contract")
    assert first.operands[1] is found.inputs[2] or columns == 1


def test_a_long_chain_has_the_best_order():
    """Six matrices: the dynamic program's order of the extents 30, 35, 15, 5, 10, 20, 25 (Cormen and others)."""
    extents = [n * 8 for n in (30, 35, 15, 5, 10, 20, 25)]

    def make(b: GraphBuilder, *matrices: Value) -> Value:
        made = matrices[0]
        for each in matrices[1:]:
            made = product(b, made, each)
        return made

    built = graph_of(make, *((f32, pair) for pair in pairwise(extents)))  # type: ignore[arg-type]
    made = rewrite(built, {"reassociate"})
    assert made.after.flops == 2 * 15125 * 8**3


def normalized(rows: int) -> Graph:
    """Rows over the root of their mean square, times a gain, times a matrix."""

    def make(b: GraphBuilder, x: Value, g: Value, w: Value) -> Value:
        total = b.reduce(b.binary("mul", x, x), (1,))
        scale = b.unary("rsqrt", b.scaled(total, 1 / 64))
        normal = b.map(apply("mul", Argument(0, f32), Argument(1, f32)), [x, scale], [(0, 1), (0,)], x.type.shape)
        return product(b, b.binary("mul", normal, g), w)

    return graph_of(make, (f32, (rows, 64)), (f32, (64,)), (f32, (64, 16)))


def test_normalization_is_folded_into_the_product():
    """(x * r * g) W is r * (x (g W)): the row scale behind the product, the gain in the weights."""
    built = normalized(65536)
    assert rewrite(simplify(built), {"reassociate"}).rules == ()  # the gain makes a matrix of its own anyway
    folded = rewrite(simplify(built), {"reassociate", "fold"})
    assert set(folded.rules) == {"scales-out-of-products", "gains-across-products"}
    (whole,) = [node for node in folded.graph.nodes if node.op == "contract"]
    assert whole.operands[0] is built.inputs[0]
    small = normalized(128)
    for graph in rewrite(simplify(small), ALGEBRA).candidates:
        close(graph, small)


def test_linear_attention_is_found():
    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        return product(b, b.contract(q, k, ((0, 1), (2, 1)), (0, 2)), v)

    built = graph_of(make, *[(f32, (512, 16))] * 3)
    found, _ = found_by(built, "reassociate")
    assert all(512 not in node.result.type.shape for node in found.nodes[:-1])


def test_products_with_a_common_factor_are_added_first():
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
        return b.binary("add", product(b, x, w), product(b, x, v))

    found, rules = found_by(graph_of(make, (f32, (256, 64)), *[(f32, (64, 32))] * 2), "reassociate")
    assert rules == ("factor-sums",)
    assert ops(found).count("contract") == 1


def test_row_sums_of_attentions_gradient():
    """The row sums of P * (dO V^T), which is as large as the scores, are those of dO * (P V)."""

    def make(b: GraphBuilder, p: Value, grad: Value, v: Value) -> tuple[Value, ...]:
        out = product(b, p, v)
        scores = b.contract(grad, v, ((0, 1), (2, 1)), (0, 2))
        return out, b.reduce(b.binary("mul", p, scores), (1,))

    built = graph_of(make, (f32, (512, 512)), (f32, (512, 16)), (f32, (512, 16)))
    found, rules = found_by(built, "reassociate")
    assert "chain-order" in rules
    assert all(node.result.type.shape != (512, 512) for node in found.nodes)


def test_a_shift_of_softmax_goes_away():
    def make(b: GraphBuilder, x: Value, s: Value) -> Value:
        add, sub = (apply(op, Argument(0, f32), Argument(1, f32)) for op in ("add", "sub"))
        places = [(0, 1), (0,)]
        shifted = b.map(add, [x, s], places, x.type.shape)
        return b.unary("exp", b.map(sub, [shifted, b.reduce(shifted, (1,), "max")], places, x.type.shape))

    found, rules = found_by(graph_of(make, (f32, (64, 32)), (f32, (64,))), "cancel")
    assert rules == ("cancel-sums", "shift-extremes")
    assert found.inputs[1] not in [value for node in found.nodes for value in node.operands]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_random_graphs_keep_their_bits(built: Graph):
    made = rewrite(built)
    for arrays in (normals([v.type for v in built.inputs]), small_integers([v.type for v in built.inputs])):
        wanted = evaluate(built, arrays)
        for candidate in made.candidates:
            verify(candidate)
            for one, other in zip(evaluate(simplify(candidate), arrays), wanted, strict=True):
                assert_same_bits(one, other)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_random_graphs_of_small_integers_are_exact(built: Graph):
    """Sums and products of small integers have no roundings to move; what is large may have some."""
    arrays = small_integers([v.type for v in built.inputs])
    for candidate in rewrite(built, {"reassociate", "fold"}).candidates:
        verify(candidate)
        for one, other in zip(evaluate(candidate, arrays), evaluate(built, arrays), strict=True):
            np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), rtol=1e-2)


def digest(graph: Graph) -> str:
    return hashlib.sha256(to_text(graph).encode()).hexdigest()


def test_shuffled_rules_give_one_plan():
    """One graph and one set of permissions have one result, whatever the order of the rules."""
    rules = list(permitted(ALGEBRA))
    for built, runs in ((simplify(normalized(65536)), 100), (block_graph(), 4)):
        found: set[str] = set()
        for seed in range(runs):
            random.Random(seed).shuffle(rules)
            made = rewrite(built, rules=rules)
            assert made.rules
            found.add("".join(map(digest, made.candidates)))
        assert len(found) == 1


HASHES: Final = """
import sys
sys.path.insert(0, {tests!r})
from lowering.graph.test_rewrite import digest
from support.rewriting import block_graph
from tessera.lowering.graph.rewrite import rewrite
print(digest(rewrite(block_graph(), {{"reassociate", "fold"}}).graph))
"""


def test_hash_seeds_do_not_count():
    tests = str(Path(__file__).parents[2])
    found = {
        subprocess.run(
            [sys.executable, "-c", HASHES.format(tests=tests)], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(Path(tests).parent)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_limits_are_told():
    built = block_graph()
    rules = permitted(ALGEBRA)
    assert saturate(built, rules).limit == ""
    assert saturate(built, rules).egraph.size < NODES
    assert saturate(built, rules, nodes=60).limit == "stopped at 60 nodes"
    assert saturate(built, rules, rounds=1).limit == "stopped after 1 rounds"
    close(rewrite(built, ALGEBRA).graph, built)


def test_histories_and_names():
    def make(b: GraphBuilder, x: Value, y: Value, z: Value) -> Value:
        return product(b, product(b, x, y), z)

    built = graph_of(make, (f32, (64, 96)), (f32, (96, 80)), (f32, (80, 4)))
    found = rewrite(built, {"reassociate"}).graph
    assert [node.origin.rule for node in found.nodes] == ["chain-order"] * 2
    assert {node.origin.parents for node in found.nodes} == {(0, 1)}
    assert min(node.ident for node in found.nodes) >= built.next_ident
    assert 'rule = "chain-order", parents = ["g0", "g1"]' in to_text(found)


def test_a_graph_that_nothing_improves_is_the_same_object():
    built = graph_of(lambda b, x: b.unary("exp", x), (f32, (3,)))
    made = rewrite(built, ALGEBRA)
    assert made.graph is built
    assert made.candidates == (built,)
    assert made.before == made.after


def test_outputs_that_become_equal_are_arrays_of_their_own():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        twice = b.unary("neg", b.unary("neg", x))
        return b.scaled(x, 1.0), twice, b.unary("exp", b.scaled(x, 1.0))

    built = graph_of(make, (f32, (64, 64)))
    for found in rewrite(built, ALGEBRA).candidates:
        verify(found)
        assert len({*found.outputs, *found.inputs}) == 4
        close(found, built)


def test_nodes_that_rules_do_not_know_are_kept():
    def make(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        both = b.binary("add", product(b, x, w), product(b, x, v))
        return (b.gather(both, b.iota(3)),)

    built = graph_of(make, (f32, (256, 64)), *[(f32, (64, 32))] * 2)
    found, _ = found_by(built, "reassociate")
    assert ops(found)[-1] == "gather"


def allowed_of(rules: Collection[str]) -> set[str]:
    return {rule.klass for rule in RULES if rule.name in rules}


def test_rules_of_the_result_are_permitted():
    for allowed in ((), ("reassociate",), ("reassociate", "fold"), tuple(ALGEBRA)):
        assert allowed_of(rewrite(block_graph(), allowed).rules) <= {"bits", *allowed}


def test_literals_are_scales():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        return product(b, b.map(apply("mul", Argument(0, f32), Literal(0.3, f32)), [x], [(0, 1)], x.type.shape), w)

    found, rules = found_by(graph_of(make, (f32, (512, 64)), (f32, (64, 64))), "reassociate")
    assert rules == ("scales-out-of-products",)
    assert ops(found) == ["contract", "map"]
