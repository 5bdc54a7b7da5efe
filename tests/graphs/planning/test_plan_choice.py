"""Choice by plans: the planner's kernels decide where the outline of prices is wrong."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import numpy as np
import pytest

import tessera
from support.gradients import causal_attention, graph_of
from support.operators import Array
from support.rewriting import block_graph
from tessera import graph, op
from tessera.core.base.dtypes import bf16, f32, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.permissions import ALGEBRA
from tessera.core.schedule.plan import CASCADE, ROW_LIMIT, is_long
from tessera.graphs.planning.plan_choice import cheapest_plan, plan_price, prepared, run_price
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph import chunk as chunks
from tessera.lowering.graph.egraph.reference_costs import ELEMENTWISE, LAUNCH, PICO, moving_time
from tessera.lowering.graph.rewrite import rewrite
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule import in_place
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


@pytest.mark.parametrize("queries", [2, 5])
def test_attention_over_long_rows_stays_one_loop(queries: int):
    keys = ROW_LIMIT + 17

    def attention(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        scores = b.contract(q, k, ((0, 1), (2, 1)), (0, 2))
        peak = b.broadcast(b.reduce(scores, (1,), "max"), (0,), scores.type.shape)
        weights = b.unary("exp", b.binary("sub", scores, peak))
        total = b.broadcast(b.reduce(weights, (1,)), (0,), scores.type.shape)
        return b.contract(b.binary("div", weights, total), v, ((0, 2), (2, 1)), (0, 1))

    built = graph_of(attention, (f32, (queries, 8)), (f32, (keys, 8)), (f32, (keys, 8)))
    (group,) = plan_graph(prepared(built)).groups
    assert group.kind == CASCADE


def test_rows_that_something_else_needs_are_reduced_in_parts():
    def attention(b: GraphBuilder, x: Value, v: Value) -> tuple[Value, Value]:
        total = b.reduce(x, (1,))
        return total, b.contract(
            b.binary("div", x, b.broadcast(total, (0,), x.type.shape)), v, ((0, 1), (1, 2)), (0, 2)
        )

    built = graph_of(attention, (f32, (3, 2 * ROW_LIMIT)), (f32, (2 * ROW_LIMIT, 4)))
    ready = prepared(built)
    long = {node.ident for node in ready.nodes if is_long(node)}
    inside = {node.ident for each in plan_graph(ready).groups if each.kind == CASCADE for node in each.members}
    assert long <= inside


def test_weights_are_computed_again_where_that_is_cheaper():
    types = tuple((f64, (4, 512, 64)) for _ in range(3))
    built = simplify(vjp(graph_of(causal_attention, *types), (0, 1, 2)))
    found = cheapest_plan([built])
    assert found.plan.again
    assert not any(value.type.shape[-2:] == (512, 512) for group in found.plan.groups for value in group.outputs)
    assert plan_price(found.plan) < priced(built)


def linear_cross_entropy(x: Array, w: Array, target: Array) -> Array:
    return op.cross_entropy(op.gemm(x, w.T), target)


def data(dtype: type = np.float32, rows: int = 24, words: int = 101) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, 10), (words, 10)))
    return x, w, rng.integers(0, words, rows).astype(np.int32)


def gradients(x: Array, w: Array, target: Array) -> tuple[Array, Array, Array]:
    """The loss and its gradients in f64."""
    a, b = x.astype(np.float64), w.astype(np.float64)
    grown = np.exp(a @ b.T)
    shares = grown / grown.sum(1, keepdims=True)
    rows = np.arange(len(target))
    loss = -np.log(shares[rows, target]).mean()
    shares[rows, target] -= 1
    return loss, shares @ b / len(target), shares.T @ a / len(target)


@pytest.fixture
def slices_of_six(monkeypatch: pytest.MonkeyPatch):
    """Let the logits of `data` be too large to be kept, and six rows of them be a slice."""
    monkeypatch.setattr(chunks, "LARGE", 4000)
    monkeypatch.setattr(chunks, "SLICES", 6 * 101 * 4)
    monkeypatch.setattr(in_place, "WORTH", 1)


@pytest.mark.usefixtures("slices_of_six")
@pytest.mark.parametrize("algebra", ["bits", "real"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12), (np.float16, 2e-2)])
def test_a_linear_cross_entropy_in_slices(dtype: type, tolerance: float, algebra: str):
    arrays = data(dtype)
    loss = graph.module("loss", algebra=algebra)(linear_cross_entropy)
    learn = tessera.value_and_grad(loss, argnums=(0, 1))
    wanted = gradients(*arrays)
    value, slopes = learn(*arrays)
    for found, each in zip((value, *slopes), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found).astype(float), each, atol=tolerance * np.abs(each).max())
    learn(*data(dtype, words=101)[:2], arrays[2] * 0)
    again, others = learn(*(array.copy() for array in arrays))  # sums begin at zero in every call
    for found, each in zip((again, *others), (value, *slopes), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(each))
    np.testing.assert_allclose(loss(*arrays), wanted[0], rtol=max(tolerance, 1e-6))
    assert [name for name, _ in learn.executable.states][-1] == "graph-chunk"
    assert 'rule = "chunk"' in learn.inspect_ir("rewritten")


@pytest.mark.usefixtures("slices_of_six")
def test_the_kernels_of_a_slice():
    """Three products, one kernel of rows between them, and a carry that stays in one place."""
    learn = tessera.value_and_grad(graph.module("loss", algebra="real")(linear_cross_entropy), argnums=(0, 1))
    executable = learn.executable_for(*data(np.float16))
    ((node, (body,)),) = executable.bodies.items()
    assert [group.kind for group in body.plan.groups] == ["product", "rows", "product", "product"]
    assert executable.plan.aliases[node.results[0]] is node.operands[1]
    assert max(value.type.size for group in executable.plan.groups for value in group.outputs) == 101 * 10
    whole = [value for value in (*node.operands, *node.results) if value.type.size >= 24 * 101]
    assert not whole


@pytest.mark.usefixtures("slices_of_six")
def test_weights_biases_and_rows_that_are_left_out():
    x, w, target = data()
    bias, weights = np.linspace(-1, 1, 101).astype(np.float32), np.linspace(0, 2, 24).astype(np.float32)
    kept = np.arange(24) % 5 > 0

    def loss(x: Array, w: Array, bias: Array) -> Array:
        logits = op.gemm(x, w.T) + bias
        hit = op.arange(101) == target.astype(np.int64)[:, None]
        rows = (op.logsumexp(logits) - op.sum(op.where(hit, logits, 0.0), axis=-1)) * weights
        return op.sum(op.where(kept, rows, 0.0))

    learn = tessera.value_and_grad(loss, argnums=(0, 1, 2))
    value, (dx, dw, db) = learn(x, w, bias)
    a, b = x.astype(np.float64), w.astype(np.float64)
    grown = np.exp(a @ b.T + bias)
    shares, scale = grown / grown.sum(1, keepdims=True), (kept * weights)[:, None]
    np.testing.assert_allclose(value, -(np.log(shares[np.arange(24), target]) * scale[:, 0]).sum(), rtol=1e-5)
    shares[np.arange(24), target] -= 1
    for found, wanted in ((dx, shares * scale @ b), (dw, (shares * scale).T @ a), (db, (shares * scale).sum(0))):
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())
    assert learn.executable.states[-1][0] == "graph-chunk"


def test_a_layer_and_its_derivative_are_a_kernel_for_each_product():
    """What the derivative of an activation is made of is computed again from its rounded argument."""

    def loss(x: Array, w: Array, v: Array, y: Array) -> Array:
        return op.sum(op.gemm(op.gelu(op.gemm(x, w)), v).astype("f32") * y)

    rng = np.random.default_rng(0)
    x, w, v, y = (rng.standard_normal(s).astype(np.float16) for s in ((40, 24), (24, 56), (56, 24), (40, 24)))
    learn = tessera.value_and_grad(loss, argnums=(0, 1, 2))
    groups = learn.executable_for(x, w, v, y).plan.groups
    products = [group for group in groups if group.kind == "product"]
    assert len(products) == 6
    assert [len(group.outputs) for group in products] == [2, 1, 1, 1, 1, 1]
    assert {value.type.dtype.name for group in products for value in group.outputs} <= {"f16", "f32"}
    assert len(groups) == 7


def test_keys_are_not_scaled_in_the_loop_that_reads_them():
    """Folding the scale into the keys would save operations; in the kernel they would be computed for every block."""
    x = np.zeros((1, 2, 1024, 64), np.float16)
    made = graph.module("attention", algebra="real")(lambda q, k, v: op.flash_attention(q, k, v, causal=True))
    (group,) = made.executable_for(x, x, x).plan.groups
    makers = {value: node for node in group.members for value in node.results}
    first = next(node for node in group.members if node.op == "contract")
    assert [makers[operand].op for operand in first.operands if operand in makers] in ([], ["view"], ["view", "view"])


def test_loops_cost_all_of_their_trips():
    def summed(x: Array) -> Array:
        return op.scan(lambda carry, row: (carry + row @ row.T, carry[0]), op.zeros((64, 64)), x)[0]

    prices: list[int] = []
    for trips in (2, 32):
        executable = graph.module("summed")(summed).executable_for(np.zeros((trips, 64, 64), np.float32))
        (loop,) = (group for group in executable.plan.groups if group.members[0].op == "loop")
        prices.append(run_price(loop))
    assert prices[1] == 16 * prices[0] > 0
