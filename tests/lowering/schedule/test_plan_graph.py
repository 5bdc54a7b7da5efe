"""Plans: joined axes, how arrays lie along them, and what whole graphs compute on `interpret` and `cpu`."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gradients import Make, graph_of
from support.graphs import DTYPES, check, close, compiled_for_hopper, normals, only, planned, windows
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.core.graph.isolated import NO_LABEL, isolated
from tessera.core.schedule.plan import Access

shapes = st.lists(st.sampled_from((1, 2, 3, 5, 8, 33)), max_size=3).map(tuple)


def x(*shape: int) -> tuple[DType, tuple[int, ...]]:
    return f32, shape


def test_rows_of_a_batch_are_rows():
    group = only(planned(lambda b, v: b.reduce(v, (3,)), x(2, 3, 4, 5)))
    assert (group.extents, group.reduced) == ((24, 5), (1,))
    assert [access.shape for access in (*group.loads.values(), *group.stores.values())] == [(24, 5), (24,)]


def test_maps_of_whole_arrays_have_one_axis():
    group = only(planned(lambda b, v, w: b.binary("add", v, w), x(2, 3, 4), x(2, 3, 4)))
    assert group.extents == (24,)


def test_axes_that_an_operand_tells_apart_stay():
    group = only(planned(lambda b, v, w: b.binary("add", v, w), x(2, 3, 4), x(4)))
    assert group.extents == (6, 4)
    turned = only(planned(lambda b, v: b.map(apply("neg", Argument(0, f32)), [v], [(1, 0)], (3, 2)), x(2, 3)))
    assert turned.extents == (3, 2)


def test_axes_of_an_index_stay():
    group = only(planned(lambda b, v: b.binary("add", v, b.cast(b.iota(4), f32)), x(3, 4)))
    assert group.extents == (3, 4)


def test_axes_of_windows_stay():
    group = only(planned(lambda b, v: b.unary("exp", b.view(v, window((8, 9), (1, 2), (1, 1), (6, 5)))), x(8, 9)))
    assert group.extents == (6, 5)
    assert list(group.loads.values()) == [Access((8, 9), (Affine(1, (Term(0),)), Affine(2, (Term(1),))))]


def test_reduced_axes_are_joined():
    group = only(planned(lambda b, v: b.reduce(v, (1, 2)), x(2, 3, 4)))
    assert (group.extents, group.reduced) == ((2, 12), (1,))


def test_summed_axes_that_a_mesh_cuts_are_joined_with_later_ones_only():
    """The leaves of [batch, rows, column] stand between the batch and the rows on other meshes."""

    def make(b: GraphBuilder, v: Value, w: Value, before: int | None) -> Value:
        plain = b.contract(v, w, ((0, 1, 2, 3), (0, 1, 2, 4)), (3, 4))
        if before is None:
            return plain
        return b.add("contract", (v, w), None, "", **isolated(b.nodes[-1].attributes, before))

    arrays = x(8, 3, 2, 16), x(8, 3, 2, 5)
    expected = {None: (48,), NO_LABEL: (48,), 0: (8, 6), 1: (24, 2)}
    for before, extents in expected.items():
        group = only(planned(partial(make, before=before), *arrays))
        assert tuple(group.extents[axis] for axis in group.reduced) == extents


def test_numbers_are_arrays_of_one_element():
    group = only(planned(lambda b, v: b.unary("exp", v), x()))
    assert [access.shape for access in (*group.loads.values(), *group.stores.values())] == [(1,), (1,)]


def test_the_members_of_elements_keep_their_shapes():
    group = only(planned(lambda b, v, w: b.gather(v, w), x(3, 4), (i64, (2,))))
    assert (group.kind, group.extents) == ("elements", (2, 4))


# Whole graphs


def matmul(b: GraphBuilder, v: Value, w: Value) -> Value:
    return b.contract(v, w, ((0, 1), (1, 2)), (0, 2))


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16, i32])
@settings(max_examples=6)
@given(sizes=st.tuples(*[st.sampled_from((1, 2, 7, 40))] * 3))
def test_products(dtype: DType, sizes: tuple[int, int, int]):
    m, n, k = sizes
    check(graph_of(matmul, (dtype, (m, k)), (dtype, (k, n))))


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64, boolean])
@settings(max_examples=6)
@given(shape=shapes, data=st.data())
def test_reductions(dtype: DType, shape: tuple[int, ...], data: st.DataObject):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1))) if shape else set[int]()
    kind = data.draw(st.sampled_from(("max", "min") if dtype == boolean else ("sum", "max", "min")))
    check(graph_of(lambda b, v: b.copy(b.reduce(v, axes, kind)), (dtype, shape)))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=5)
@given(shape=shapes, data=st.data())
def test_views(dtype: DType, shape: tuple[int, ...], data: st.DataObject):
    order = data.draw(st.permutations(range(len(shape))))
    turned = tuple(shape[axis] for axis in order)
    part = data.draw(windows(turned))

    def make(b: GraphBuilder, v: Value) -> Value:
        return b.copy(b.view(b.transpose(v, order), part))

    check(graph_of(make, (dtype, shape)))


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64])
@settings(max_examples=5)
@given(shape=shapes, data=st.data())
def test_maps_of_repeated_operands(dtype: DType, shape: tuple[int, ...], data: st.DataObject):
    fewer = tuple(data.draw(st.sampled_from((1, size))) for size in shape[data.draw(st.integers(0, len(shape))) :])
    check(graph_of(lambda b, v, w: b.binary("mul", b.binary("add", v, w), v), (dtype, shape), (dtype, fewer)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: DType):
    def make(b: GraphBuilder, v: Value) -> tuple[Value, ...]:
        return tuple(b.copy(b.cast(v, other)) for other in DTYPES)

    check(graph_of(make, (dtype, (3, 5))))


def gram(b: GraphBuilder, v: Value) -> Value:
    return b.contract(v, v, ((0, 1), (2, 1)), (0, 2))


def outer(b: GraphBuilder, v: Value) -> Value:
    row, column = Argument(0, f32), Argument(1, f32)
    return b.map(apply("sub", row, column), [v, v], [(0,), (1,)], (5, 5))


def attention(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
    """Heads that are transposed and joined at the end."""
    scores = b.contract(q, k, ((0, 1, 2), (0, 3, 2)), (0, 1, 3))
    heads = b.contract(scores, v, ((0, 1, 2), (0, 2, 3)), (0, 1, 3))
    return b.copy(b.reshape(b.transpose(heads, (1, 0, 2)), (4, 6)))


def convolution(b: GraphBuilder, v: Value, w: Value) -> Value:
    """Windows of 3 x 3 around each of 6 x 5 pixels of 2 channels; 4 filters."""
    terms = (Affine(0, (Term(2),)), Affine(-1, (Term(0), Term(3))), Affine(-1, (Term(1), Term(4))))
    patches = b.view(v, IndexMap((6, 5, 2, 3, 3), terms, padded=True))
    return b.contract(patches, w, ((0, 1, 2, 3, 4), (5, 2, 3, 4)), (5, 0, 1))


def embedding(b: GraphBuilder, table: Value, index: Value) -> tuple[Value, Value]:
    rows = b.gather(table, index)
    return rows, b.scatter_add(index, rows, 7)


def strided(b: GraphBuilder, v: Value, w: Value) -> Value:
    even = b.view(v, window((8, 10), (0, 0), (1, 2), (8, 5)))
    return matmul(b, even, w)


def shared_by_two(b: GraphBuilder, v: Value, w: Value) -> Value:
    """A value that is read along two different axes."""
    e = b.binary("add", v, w)
    return b.binary("sub", e, b.transpose(e, (1, 0)))


def normalized_rows_and_columns(b: GraphBuilder, v: Value) -> tuple[Value, Value]:
    return (b.binary("sub", v, b.reshape(b.reduce(v, (1,), "max"), (5, 1))), b.binary("sub", v, b.reduce(v, (0,))))


CASES: dict[str, tuple[Make, *tuple[tuple[DType, tuple[int, ...]], ...]]] = {
    "a product with itself": (gram, x(5, 7)),
    "a product with itself, bf16": (gram, (bf16, (17, 9))),
    "one vector along rows and columns": (outer, x(5)),
    "heads joined": (attention, x(3, 4, 2), x(3, 4, 2), x(3, 4, 2)),
    "convolution": (convolution, x(2, 6, 5), x(4, 2, 3, 3)),
    "embedding": (embedding, x(9, 4), (i64, (2, 3))),
    "strided operand": (strided, x(8, 10), x(5, 6)),
    "an operand and its transposition": (shared_by_two, x(5, 5), x(5, 5)),
    "rows and columns": (normalized_rows_and_columns, x(5, 6)),
    "inputs returned": (lambda b, v, w: (v, b.copy(w), v), x(3), x(4)),
    "a result returned twice": (lambda b, v: (b.unary("neg", v),) * 2, x(3, 4)),
    "a result and views of it": (
        lambda b, v: ((e := b.unary("neg", v)), b.transpose(e, (1, 0)), b.reshape(e, (12,))),
        x(3, 4),
    ),
    "transposed output": (lambda b, v, w: b.transpose(matmul(b, v, w), (1, 0)), x(3, 4), x(4, 5)),
    "transposed sums": (lambda b, v: b.transpose(b.reduce(v, (1,)), (1, 0)), x(3, 4, 5)),
    "product of vectors": (lambda b, v, w: b.contract(v, w, ((0,), (0,)), ()), x(9), x(9)),
    "outer product": (lambda b, v, w: b.contract(v, w, ((0,), (1,)), (0, 1)), x(3), x(4)),
    "two summed labels": (lambda b, v, w: b.contract(v, w, ((0, 1, 2), (1, 2, 3)), (3, 0)), x(3, 4, 5), x(4, 5, 6)),
    "a label of one operand": (lambda b, v, w: b.contract(v, w, ((0, 1), (2,)), (0, 2)), x(3, 4), x(5)),
    "batched, batch in the middle": (
        lambda b, v, w: b.contract(v, w, ((0, 1, 2), (2, 1, 3)), (0, 1, 3)),
        x(3, 2, 4),
        x(4, 2, 5),
    ),
    "sum of no elements": (lambda b, v: b.reduce(v, (1,)), x(3, 0)),
    "product over nothing": (matmul, x(3, 0), x(0, 4)),
    "no rows": (matmul, x(0, 3), x(3, 4)),
    "maps of nothing": (lambda b, v: b.unary("neg", v), x(0, 3)),
    "sums of no rows": (lambda b, v: b.reduce(v, (1,)), x(0, 3)),
    "concatenation with nothing": (lambda b, v, w: b.concat((v, w, v), 1), x(2, 3), x(2, 0)),
    "gather from nothing": (lambda b, v, w: b.gather(v, w), x(0, 3), (i64, (4,))),
    "gather of nothing": (lambda b, v, w: b.gather(v, w), x(3, 2), (i32, (0,))),
    "sum by no index": (lambda b, v, w: b.scatter_add(w, v, 4), x(0, 3), (i64, (0,))),
    "numbers": (lambda b, v, w: b.binary("mul", v, w), x(), x()),
    "gather of a number": (lambda b, v, w: b.gather(v, w), x(5), (i64, ())),
    "sum by a number": (lambda b, v, w: b.scatter_add(w, v, 4), x(), (i64, ())),
    "a number repeated": (lambda b, v: b.copy(b.broadcast(v, (), (3, 4))), x()),
    "no inputs used": (lambda b, v: b.full(2.0, f32, (3, 4)), x()),
    "indices": (lambda b, v: b.binary("mul", v, b.iota(5)), (i64, (3, 5))),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str):
    make, *inputs = CASES[name]
    check(graph_of(make, *inputs))


@pytest.mark.parametrize(
    "name", ["a product with itself, bf16", "convolution", "embedding", "rows and columns", "sum by a number",
             "two summed labels"]
)  # fmt: skip
def test_cases_compile_for_hopper(name: str):
    make, *inputs = CASES[name]
    texts = compiled_for_hopper(graph_of(make, *inputs))
    assert texts
    assert all(".target sm_90a" in text for text in texts)


def test_normal_floats():
    built = graph_of(lambda b, v, w: b.unary("tanh", matmul(b, v, w)), x(33, 70), x(70, 20))
    close(built, normals([value.type for value in built.inputs]), 1e-5)


def test_a_long_inner_axis_inside_of_an_array():
    """Behind the summed axis there are other elements: they are not added."""

    def make(b: GraphBuilder, v: Value, w: Value) -> Value:
        return matmul(b, b.view(v, window((4, 700), (0, 50), (1, 1), (4, 600))), w)

    check(graph_of(make, x(4, 700), x(600, 5)))


def test_large_blocks_of_ragged_maps():
    check(graph_of(lambda b, v, w: b.binary("add", v, w), x(3, 1100), x(1100)))
