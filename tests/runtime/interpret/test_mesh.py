"""Collectives in NumPy: what each device of a mesh has behind them, and parts of arrays."""

import numpy as np
import pytest

from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Tensor, Value
from tessera.core.placement.mesh import Mesh
from tessera.core.program.program import Attribute
from tessera.runtime.interpret.mesh import evaluate_on_mesh, part_of, whole_of

MESH = Mesh.of(("a", "b"), range(4), (2, 2))


def run(given: list[np.ndarray], **attributes: Attribute) -> list[np.ndarray]:
    x = Value(Tensor(f32, given[0].shape))
    builder = GraphBuilder()
    whole: dict[str, Attribute] = {"reduction": "", **attributes}
    made = builder.add("collective", [x], None, "", **whole)
    graph = builder.finish("c", [x], [made])
    return [outputs[0] for outputs in evaluate_on_mesh(graph, MESH, [[part] for part in given])]


def numbered(*shape: int) -> list[np.ndarray]:
    return [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 100 * rank for rank in range(4)]


def test_sums_of_a_group():
    parts = numbered(4, 2)
    found = run(parts, kind="all_reduce", axes=("b",), parts=2, reduction="sum")
    np.testing.assert_array_equal(found[0], parts[0] + parts[1])
    np.testing.assert_array_equal(found[3], parts[2] + parts[3])
    found = run(parts, kind="reduce_scatter", axes=("a",), parts=2, reduction="max", cut=0)
    np.testing.assert_array_equal(found[2], parts[2][2:])
    np.testing.assert_array_equal(found[0], parts[2][:2])


def test_ranks_are_added_in_a_tree():
    parts = [np.array([number], np.float32) for number in (1e8, 1.0, -1e8, 1.0)]
    found = run(parts, kind="all_reduce", axes=("a", "b"), parts=4, reduction="sum")
    assert [each.tolist() for each in found] == [[0.0]] * 4, "(1e8 + 1) + (-1e8 + 1): both ones are lost"


def test_movements():
    parts = numbered(4, 2)
    found = run(parts, kind="all_gather", axes=("a", "b"), parts=4, join=1)
    np.testing.assert_array_equal(found[1], np.concatenate(parts, axis=1))
    found = run(parts, kind="slice", axes=("a",), parts=2, cut=0)
    np.testing.assert_array_equal(found[1], parts[1][:2])
    np.testing.assert_array_equal(found[2], parts[2][2:])
    found = run(parts, kind="all_to_all", axes=("b",), parts=2, join=1, cut=0)
    np.testing.assert_array_equal(found[1], np.concatenate([parts[0][2:], parts[1][2:]], axis=1))


@pytest.mark.parametrize("dims", [((), ()), (("a",), ("b",)), (("b", "a"), ()), ((), ("a",))])
def test_parts_make_the_whole(dims: tuple[tuple[str, ...], ...]):
    whole = np.arange(32, dtype=np.float32).reshape(8, 4)
    parts = [part_of(whole, dims, MESH, rank) for rank in range(4)]
    np.testing.assert_array_equal(whole_of(parts, Tensor(f32, (8, 4)), dims, MESH), whole)
