"""Sibling contractions: which are one loop, which are not, and what they compute."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.graphs import assert_same_bits, check, close, normals, planned, run
from support.targets import RUNNABLE
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.index_maps import window
from tessera.core.schedule.plan import PRODUCT
from tessera.core.schedule.refusals import listening
from tessera.graphs.executable import Executable
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.form import Members, form
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.lowering.schedule.separate_uses import separate_uses
from tessera.lowering.schedule.siblings import MOST_SIBLINGS, sibling_axes
from tessera.session.session import resolve_target


def silu(b: GraphBuilder, v: Value) -> Value:
    d = v.type.dtype
    below = apply("add", Literal(1.0, d), apply("exp", apply("neg", Argument(0, d))))
    return b.elementwise(apply("div", Argument(0, d), below), [v])


def gated(rows: int, inner: int, columns: int, dtype: DType, count: int = 2, compute: str = "") -> Graph:
    """Return `silu(x w) * (x v) * ...` with `count` weights."""
    b = GraphBuilder()
    x = Value(Tensor(dtype, (rows, inner)), "x")
    weights = [Value(Tensor(dtype, (inner, columns)), f"w{n}") for n in range(count)]
    first, *others = (b.contract(x, w, ((0, 1), (1, 2)), (0, 2), compute=compute) for w in weights)
    made = silu(b, first)
    for each in others:
        made = b.binary("mul", made, each)
    return simplify(b.finish("gated", (x, *weights), (b.cast(made, dtype),)))


def x(*shape: int) -> tuple[DType, tuple[int, ...]]:
    return f32, shape


def linear(b: GraphBuilder, v: Value, w: Value) -> Value:
    return b.contract(v, w, ((0, 1), (1, 2)), (0, 2))


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*[st.sampled_from((1, 2, 5, 16, 33, 70))] * 3), st.sampled_from((f16, bf16, f32, f64)),
    st.integers(2, MOST_SIBLINGS),
)  # fmt: skip
def test_gated_products_of_any_size_are_one_kernel(sizes: tuple[int, int, int], dtype: DType, count: int):
    graph = gated(*sizes, dtype, count)
    (group,) = plan_graph(graph).groups
    assert group.kind == PRODUCT or 1 in sizes  # a sum of one product is a map
    tolerance = {16: 2e-2, 32: 1e-4, 64: 1e-10}[dtype.bits]
    close(graph, [each / np.sqrt(sizes[1]).astype(each.dtype) for each in normals([v.type for v in graph.inputs])],
          tolerance)  # fmt: skip


@pytest.mark.parametrize("target", RUNNABLE)
def test_siblings_have_the_bits_that_they_have_alone(target: str):
    """A result that the graph returns twice over is computed by a kernel of its own, in the same order."""

    def make(b: GraphBuilder, v: Value, w: Value, u: Value) -> Value:
        return b.binary("add", linear(b, v, w), linear(b, v, u))

    together = planned(make, x(40, 300), x(300, 37), x(300, 37)).graph
    assert len(Executable(together).plan.groups) == 1
    b = GraphBuilder()
    a, w = Value(Tensor(f32, (40, 300)), "a"), Value(Tensor(f32, (300, 37)), "w")
    alone = b.finish("alone", (a, w), (linear(b, a, w),))
    data = normals([value.type for value in together.inputs])
    (found,) = run(together, data, target)
    one, other = (np.asarray(run(alone, [data[0], each], target)[0]) for each in data[1:])
    assert_same_bits(found, one + other)


def test_an_operand_is_loaded_once():
    (group,) = plan_graph(gated(8, 16, 32, f32)).groups
    arrays = [value for value in group.loads if value.type.shape == (8, 16)]
    assert len(arrays) == 2
    assert len({group.loaded_as[value] for value in arrays}) == 1


def test_siblings_share_the_second_operand_too():
    found = planned(lambda b, v, w, u: b.binary("mul", linear(b, v, u), linear(b, w, u)), x(3, 4), x(3, 4), x(4, 5))
    assert len(found.groups) == 1
    check(found.graph)


def test_siblings_read_parts_of_one_array():
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        halves = [b.view(w, window((4, 10), (0, start), (1, 1), (4, 5))) for start in (0, 5)]
        return b.binary("mul", linear(b, v, halves[0]), linear(b, v, halves[1]))

    found = planned(make, x(3, 4), x(4, 10))
    assert len(found.groups) == 1
    check(found.graph)


def test_siblings_of_a_transposed_operand():
    def make(b: GraphBuilder, v: Value, w: Value, u: Value) -> Value:
        t = b.transpose(v, (1, 0))
        return b.binary("mul", linear(b, t, w), linear(b, t, u))

    found = planned(make, x(4, 3), x(4, 5), x(4, 5))
    assert len(found.groups) == 1
    check(found.graph)


def test_siblings_are_no_part_of_a_cascade():
    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
        scores = b.binary("mul", b.contract(q, k, ((0, 1), (2, 1)), (0, 2)), b.contract(q, v, ((0, 1), (2, 1)), (0, 2)))
        weights = b.unary("exp", scores)
        return b.contract(weights, v, ((0, 1), (1, 2)), (0, 2))

    found = planned(make, x(5, 8), x(9, 8), x(9, 8))
    (group,) = found.groups
    assert group.loop is not None
    assert len(group.loop.inner) == 2  # each product sums over an axis of its own
    assert not sibling_axes(group.members)
    close(found.graph, [each / 4 for each in normals([v.type for v in found.graph.inputs])], 1e-5)


def test_products_of_different_elements_are_no_siblings():
    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        halves = [b.view(v, window((3, 8), (0, start), (1, 1), (3, 4))) for start in (0, 4)]
        return b.binary("add", linear(b, halves[0], w), linear(b, halves[1], b.unary("exp", w)))

    found = planned(make, x(3, 8), x(4, 5))
    assert sum(group.kind == PRODUCT for group in found.groups) == 2


def test_products_that_compute_otherwise_are_no_siblings():
    def make(b: GraphBuilder, v: Value, w: Value, u: Value) -> Value:
        exact = b.contract(v, u, ((0, 1), (1, 2)), (0, 2), exact=True)
        return b.binary("add", linear(b, v, w), exact)

    assert len(planned(make, x(3, 4), x(4, 5), x(4, 5)).groups) == 2


def test_a_product_of_a_product_is_no_sibling_of_it():
    found = planned(lambda b, v: linear(b, v, linear(b, v, v)), x(260, 260))
    assert len(found.groups) == 2
    check(found.graph, [np.eye(260, dtype=np.float32) * 3], targets=("cpu",))


def test_more_siblings_than_sums_have_registers_for():
    graph = gated(3, 4, 5, f32, MOST_SIBLINGS + 1)
    plan = plan_graph(graph)
    products = [sum(node.op == "contract" for node in group.members) for group in plan.groups]
    assert sorted(products) == [1, MOST_SIBLINGS]
    close(graph, normals([value.type for value in graph.inputs]), 1e-5)
    split = separate_uses(graph)
    with listening() as refusals:
        assert form(Members(split.nodes, split.inputs, split.outputs)) is None
    assert any(each.rule == "siblings" and each.detail == "5, and at most 4" for each in refusals)


def test_pairs_of_axes():
    """The axes of x are the same for both products, place by place."""
    split = separate_uses(gated(3, 4, 5, f32))
    left = [node.operands[0] for node in split.nodes if node.op == "contract"]
    assert sibling_axes(split.nodes) == [((left[0], axis), (left[1], axis)) for axis in (0, 1)]
    assert sibling_axes([node for node in split.nodes if node.op != "contract"]) == []


COMPILED = [
    (bf16, 2, "", "m64n128k16"), (f16, 3, "", "m64n64k16"), (bf16, 4, "", "m64n64k16"), (f32, 2, "tf32", "m64n128k8"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "count", "compute", "shape"), COMPILED, ids=str)
def test_sums_of_siblings_stay_in_registers(dtype: DType, count: int, compute: str, shape: str):
    """Warp groups multiply, every block of x is loaded once a step, and nothing is spilled."""
    graph = gated(4096, 4096, 11008, dtype, count, compute)
    (kernel,) = Executable(graph).kernels(resolve_target("cuda:sm_90a"))
    assert kernel.compiled is not None
    (artifact,) = kernel.compiled.artifacts
    ptx = kernel.compiled.ir("ptx")
    assert set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m\w+?)\.", ptx)) == {shape}
    assert artifact.resources is not None
    assert artifact.resources.spill_bytes == 0
    pipelines = [each for each in artifact.resources.buffers if each.role.startswith("pipeline")]
    assert len(pipelines) <= 1 + count
