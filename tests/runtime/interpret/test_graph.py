"""The oracle of graphs against plain NumPy, primitive by primitive."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from support.gradients import graph_of
from support.graphs import assert_same_bits, normals, small_integers
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32, i64
from tessera.core.base.reductions import tree_sum
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.runtime.interpret.graph import evaluate, evaluate_expr
from tessera.runtime.interpret.rounding import Numbers

FLOATS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum}
INTEGERS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod,
            "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
            "max": np.maximum}  # fmt: skip
UNARY = {"neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt}


def inputs(built: Graph) -> list[Numbers]:
    return normals([value.type for value in built.inputs])


def only(built: Graph, *arrays: Numbers) -> Numbers:
    (found,) = evaluate(built, arrays or inputs(built))
    return found


@pytest.mark.parametrize("opcode", FLOATS)
@pytest.mark.parametrize("dtype", [f32, f64])
def test_maps_of_two_floats(opcode: str, dtype: DType):
    built = graph_of(lambda b, x, y: b.binary(opcode, x, y), (dtype, (4, 5)), (dtype, (5,)))
    x, y = inputs(built)
    assert_same_bits(only(built), FLOATS[opcode](x, y))


@pytest.mark.parametrize("opcode", INTEGERS)
@pytest.mark.parametrize("dtype", [i32, i64])
def test_maps_of_two_integers(opcode: str, dtype: DType):
    built = graph_of(lambda b, x, y: b.binary(opcode, x, y), (dtype, (4, 5)), (dtype, (4, 1)))
    x, y = inputs(built)
    y = np.where(y == 0, 2, y).astype(dtype.numpy)
    assert_same_bits(only(built, x, y), INTEGERS[opcode](x, y))


@pytest.mark.parametrize("opcode", UNARY)
@pytest.mark.parametrize("dtype", [f32, f64])
def test_maps_of_one_float(opcode: str, dtype: DType):
    built = graph_of(lambda b, x: b.unary(opcode, x), (dtype, (30,)))
    x = np.abs(inputs(built)[0]) if opcode == "sqrt" else inputs(built)[0]
    assert_same_bits(only(built, x), UNARY[opcode](x))


def test_maps_of_transposed_operands():
    body = apply("sub", Argument(0, f32), Argument(1, f32))
    built = graph_of(lambda b, x, y: b.map(body, [x, y], [(2, 0), (1,)], (3, 4, 5)), (f32, (5, 3)), (f32, (4,)))
    x, y = inputs(built)
    assert_same_bits(only(built), x.T[:, None, :] - y[None, :, None])


def test_bodies_with_comparisons_selections_and_casts():
    x = Argument(0, f32)
    body = apply("select", apply("cmp", x, Literal(0.0, f32), predicate="lt"), cast_expr(x, bf16),
                 cast_expr(Literal(2.5, f32), bf16))  # fmt: skip
    built = graph_of(lambda b, v: b.map(body, [v], [(0,)], (9,)), (f32, (9,)))
    (array,) = inputs(built)
    wanted = np.where(array < 0, array.astype(bf16.numpy), np.float32(2.5).astype(bf16.numpy))
    assert_same_bits(only(built), wanted)


def test_fused_multiply_adds_round_once():
    x = np.float32(1 + 2**-12)
    a, b, c = (Argument(number, f32) for number in range(3))
    found = evaluate_expr(apply("fma", a, b, c), [np.asarray(x), np.asarray(x), np.asarray(np.float32(-1))])
    assert float(found) == float(np.float32(float(x) * float(x) - 1))


def test_numbers_without_operands():
    built = graph_of(lambda b, x: (x, b.full(-0.0, f64, (2, 3))), (f32, ()))
    assert_same_bits(evaluate(built, inputs(built))[1], np.full((2, 3), -0.0))


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16, i32])
@pytest.mark.parametrize(
    ("spec", "left", "right"),
    [("ik,kj->ij", (3, 4), (4, 5)), ("bik,bjk->bij", (2, 3, 4), (2, 5, 4)), ("ik,jk->ji", (3, 4), (5, 4)),
     ("i,i->", (7,), (7,)), ("i,j->ij", (3,), (4,)), ("ijk,jk->i", (3, 2, 4), (2, 4)), ("ik,j->j", (3, 4), (5,)),
     ("bi,bi->bi", (3, 4), (3, 4)), ("ik,kj->ij", (3, 0), (0, 4)), ("bik,kbj->ibj", (2, 0, 3), (3, 2, 4))],
)  # fmt: skip
def test_contractions(dtype: DType, spec: str, left: tuple[int, ...], right: tuple[int, ...]):
    terms, result = spec.split("->")
    labels = [tuple(map(ord, term)) for term in terms.split(",")]
    made = tuple(map(ord, result))
    built = graph_of(lambda b, x, y: b.contract(x, y, labels, made), (dtype, left), (dtype, right))
    x, y = small_integers([value.type for value in built.inputs])
    into = built.outputs[0].type.dtype
    wanted = np.einsum(spec, x.astype(np.float64), y.astype(np.float64)).astype(into.numpy)
    np.testing.assert_array_equal(only(built, x, y), wanted)
    assert only(built, x, y).dtype == into.numpy
    fast = evaluate(built, [x, y], blas=True)[0]
    np.testing.assert_array_equal(fast, wanted)
    assert fast.dtype == into.numpy


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_sums_have_the_fixed_association(dtype: DType, axes: tuple[int, ...]):
    """Several axes are one axis in row-major order."""
    built = graph_of(lambda b, x: b.reduce(x, axes), (dtype, (3, 40, 7)))
    (x,) = inputs(built)
    kept = [axis for axis in range(3) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    assert_same_bits(only(built), tree_sum(x.transpose((*kept, *axes)).reshape((*shape, -1)), -1))


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64, boolean])
@pytest.mark.parametrize(("kind", "rule"), [("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("axes", [(1,), (0, 2)])
def test_maxima(dtype: DType, kind: str, rule: Callable[..., Numbers], axes: tuple[int, ...]):
    built = graph_of(lambda b, x: b.reduce(x, axes, kind), (dtype, (3, 5, 7)))
    assert_same_bits(only(built), np.asarray(rule(inputs(built)[0], axis=axes)))


def test_zeros_and_nans_of_maxima():
    built = graph_of(lambda b, x: (b.reduce(x, (1,), "max"), b.reduce(x, (1,), "min")), (f32, (3, 3)))
    x = np.array([[-0.0, 0.0, -0.0], [np.nan, 1, 2], [-0.0, -0.0, -0.0]], np.float32)
    most, least = evaluate(built, [x])
    assert_same_bits(most, np.array([0.0, np.nan, -0.0], np.float32))
    assert_same_bits(least, np.array([-0.0, np.nan, -0.0], np.float32))


@pytest.mark.parametrize(
    ("dtype", "kind", "number"),
    [(f32, "sum", 0), (f32, "max", -np.inf), (f64, "min", np.inf), (i32, "max", -(2**31)), (i64, "min", 2**63 - 1),
     (boolean, "max", False), (boolean, "min", True), (i32, "sum", 0)],
)  # fmt: skip
def test_reductions_of_nothing(dtype: DType, kind: str, number: float):
    built = graph_of(lambda b, x: b.reduce(x, (1,), kind), (dtype, (2, 0, 3)))
    np.testing.assert_array_equal(only(built), np.full((2, 3), number, dtype.numpy))
    nothing = graph_of(lambda b, x: b.reduce(x, (1,), kind), (dtype, (0, 4)))
    assert only(nothing).shape == (0,)


def test_views():
    terms = (Affine(1, (Term(1, 2),)), Affine(0, (Term(0, 1, 2), Term(0, 3, 1, 2))))
    index_map = IndexMap((4, 3), terms)
    built = graph_of(lambda b, x: b.view(x, index_map), (f32, (6, 8)))
    (x,) = inputs(built)
    wanted = np.empty((4, 3), np.float32)
    for i, j in itertools.product(range(4), range(3)):
        wanted[i, j] = x[1 + 2 * j, i // 2 + 3 * (i % 2)]
    assert_same_bits(only(built), wanted)


def test_padded_views():
    built = graph_of(lambda b, x: b.view(x, window((3, 4), (-1, 3), (1, -1), (5, 6))), (f32, (3, 4)))
    (x,) = inputs(built)
    wanted = np.pad(x[:, ::-1], ((1, 1), (0, 2)))
    assert_same_bits(only(built), wanted)


def test_views_of_nothing():
    built = graph_of(lambda b, x: (b.reshape(x, (0, 5)), b.view(x, window((3, 0), (0, -1), (1, 1), (3, 2)))),
                     (f32, (3, 0)))  # fmt: skip
    reshaped, padded = evaluate(built, inputs(built))
    assert reshaped.shape == (0, 5)
    assert_same_bits(padded, np.zeros((3, 2), np.float32))


def test_concatenations():
    built = graph_of(lambda b, x, y: b.concat((x, y, x), 1), (bf16, (2, 3)), (bf16, (2, 0)))
    x, y = inputs(built)
    assert_same_bits(only(built), np.concatenate((x, y, x), 1))


def test_gathers():
    built = graph_of(lambda b, x, i: b.gather(x, i, 1), (f32, (3, 4, 2)), (i32, (2, 3)))
    x, _ = inputs(built)
    index = np.array([[0, 3, -1], [4, 2, 2]], np.int32)
    wanted = np.where(((index >= 0) & (index < 4))[None, :, :, None], x[:, np.clip(index, 0, 3)], np.float32(0))
    assert_same_bits(only(built, x, index), wanted)
    nothing = graph_of(lambda b, x, i: b.gather(x, i, 0), (f32, (0, 2)), (i32, (3,)))
    assert_same_bits(only(nothing), np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("dtype", [f32, i64])
def test_sums_by_index(dtype: DType):
    built = graph_of(lambda b, i, x: b.scatter_add(i, x, 4, 1), (i64, (2, 3)), (dtype, (5, 2, 3, 2)))
    _, x = inputs(built)
    index = np.array([[0, 3, -1], [4, 0, 2]])
    wanted = np.zeros((5, 4, 2), dtype.numpy)
    for place in itertools.product(range(2), range(3)):
        if 0 <= index[place] < 4:
            wanted[:, index[place]] += x[:, *place]
    assert_same_bits(only(built, index, x), wanted)
    number = graph_of(lambda b, i, x: b.scatter_add(i, x, 3), (i64, ()), (dtype, ()))
    assert_same_bits(only(number, np.asarray(1), np.asarray(7, dtype.numpy)), np.array([0, 7, 0], dtype.numpy))


def test_indices():
    built = graph_of(lambda b, x: (x, b.iota(4)), (f32, ()))
    assert_same_bits(evaluate(built, inputs(built))[1], np.arange(4))


def test_the_observer_sees_every_node():
    seen: list[tuple[Node, Numbers]] = []

    def make(b: GraphBuilder, x: Value) -> Value:
        return b.unary("neg", b.unary("abs", x))

    built = graph_of(make, (f32, (3,)))
    evaluate(built, inputs(built), lambda node, results: seen.append((node, results[0])))
    assert [node for node, _ in seen] == list(built.nodes)
    np.testing.assert_array_equal(seen[1][1], -seen[0][1])


def test_the_results_are_arrays_of_their_own():
    built = graph_of(lambda b, x: b.transpose(x, (1, 0)), (f32, (3, 4)))
    (x,) = inputs(built)
    found = only(built, x)
    assert found.flags.c_contiguous
    assert not np.shares_memory(found, x)
