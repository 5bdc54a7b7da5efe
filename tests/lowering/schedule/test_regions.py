"""Cascades are found in nodes: which axis, which reductions, which atoms."""

from tessera.core.base.dtypes import bf16, boolean, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply, walk
from tessera.core.graph.graph import Tensor, TensorValue
from tessera.lowering.schedule.axes import axis_space
from tessera.lowering.schedule.regions import find_cascade


def attention(width: int = 16, dtype: str = "f32"):
    build = GraphBuilder()
    kind = f32 if dtype == "f32" else bf16
    q, k, v = (TensorValue(Tensor(kind, shape)) for shape in ((8, width), (12, width), (12, 4)))
    scores = build.contract(q, k, ((0, 2), (1, 2)), (0, 1))
    top = build.reduce(scores, (1,), "max")
    spread = build.map(apply("sub", Argument(0, f32), Argument(1, f32)), (scores, top), ((0, 1), (0,)), (8, 12))
    weight = build.unary("exp", spread)
    total = build.reduce(weight, (1,))
    out = build.contract(build.cast(weight, kind), v, ((0, 1), (1, 2)), (0, 2))
    nodes = tuple(build.nodes)
    space = axis_space(nodes, [out, total, *(value for node in nodes for value in node.results), q, k, v])
    assert space is not None
    return nodes, space, out, total, (scores, v)


def test_attention_has_one_loop_over_the_keys():
    nodes, space, out, total, atoms = attention()
    found = find_cascade(nodes, space, [out, total])
    assert found is not None
    assert space.extents[found.axis] == 12
    assert [space.extents[axis] for axis in found.inner] == [16]
    assert [node.op for node in found.reductions] == ["reduce", "reduce", "contract"]
    assert found.atoms == atoms
    assert len(found.cascade.moments) == 2


def test_a_rounding_on_the_way_is_left_out():
    nodes, space, out, total, _ = attention(dtype="bf16")
    found = find_cascade(nodes, space, [out, total])
    assert found is not None
    assert all(dtype == f32 for dtype in found.cascade.region.atoms)


def test_inner_axes_are_short():
    nodes, space, out, total, _ = attention(width=300)
    assert find_cascade(nodes, space, [out, total]) is None


def test_numbers_beside_short_floats_are_widened_with_them():
    build = GraphBuilder()
    seen, scores, v = (TensorValue(Tensor(kind, shape)) for kind, shape in
                       ((boolean, (8, 12)), (bf16, (8, 12)), (bf16, (12, 4))))  # fmt: skip
    body = apply("select", Argument(0, boolean), Argument(1, bf16), Literal(-10001.0, bf16))
    masked = build.cast(build.map(body, (seen, scores), ((0, 1), (0, 1)), (8, 12)), f32)
    top = build.reduce(masked, (1,), "max")
    out = build.contract(build.cast(masked, bf16), v, ((0, 1), (1, 2)), (0, 2))
    nodes = tuple(build.nodes)
    space = axis_space(nodes, [out, top, *(node.result for node in nodes), seen, scores, v])
    assert space is not None
    found = find_cascade(nodes, space, [out, top])
    assert found is not None
    bodies = [each.body for each in found.cascade.region.reductions]
    literals = {each for body in bodies for each in walk(body) if isinstance(each, Literal)}
    assert literals == {Literal(-9984.0, f32)}  # the nearest bf16
    assert {each.dtype for body in bodies for each in walk(body)} == {f32, boolean}
    assert found.ended == frozenset(range(3))


def test_a_contraction_of_results_is_no_atom():
    build = GraphBuilder()
    x, y = (TensorValue(Tensor(f32, shape)) for shape in ((5, 6), (6, 7)))
    top = build.reduce(y, (1,), "max")
    weight = build.map(apply("sub", Argument(0, f32), Argument(1, f32)), (y, top), ((0, 1), (0,)), (6, 7))
    product = build.contract(x, weight, ((0, 2), (2, 1)), (0, 1))
    out = build.reduce(product, (1,))
    nodes = tuple(build.nodes)
    space = axis_space(nodes, [out, *(node.result for node in nodes), x, y])
    assert space is not None
    assert find_cascade(nodes, space, [out]) is None


def test_an_atom_is_nothing_that_a_reduction_has_a_part_in():
    """Of `(x @ w) @ v`, both summed over the columns of x: the outer product needs the inner one."""
    build = GraphBuilder()
    x, w, v, u = (TensorValue(Tensor(f32, (8, 8))) for _ in range(4))
    first = build.contract(x, w, ((0, 1), (1, 2)), (0, 2))  # [i, m], over l
    second = build.contract(first, v, ((0, 2), (1, 2)), (0, 1))  # [i, l], over m
    joined = build.map(apply("mul", Argument(0, f32), Argument(1, f32)), (second, x), ((0, 1), (0, 1)), (8, 8))
    out = build.contract(joined, u, ((0, 1), (1, 3)), (0, 3))  # [i, j], over l
    nodes = tuple(build.nodes)
    space = axis_space(nodes, [out, *(value for node in nodes for value in node.results), x, w, v, u])
    assert space is not None
    assert find_cascade(nodes, space, [out]) is None
