"""Random graphs on random meshes (`tests/fuzz/meshes.py`): a fixed part of `make fuzz WHAT=meshes`, and the fuzzer."""

from collections import Counter
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest

from fuzz.graph_steps import graph_case_of
from fuzz.graphs import GraphCase, Input, Step
from fuzz.meshes import check_on_mesh, describe, placed
from tessera.core.graph.graph import Node
from tessera.core.placement.mesh import Mesh
from tessera.graphs.execution import collective_step
from tessera.runtime.interpret.mesh import join_into

SUM = GraphCase(2, (Input("x0", "f32", (6,)),), (Step("v0", "op.sum(x0)"),), ("v0",))


@pytest.mark.parametrize("block", range(4))
def test_meshes_agree_with_the_oracle(block: int) -> None:
    kinds = Counter[str]()
    for seed in range(12 * block, 12 * block + 12):
        case = graph_case_of(seed)
        outcome = check_on_mesh(case, "cpu")
        kinds[outcome.kind] += 1
        assert not outcome.bad, f"python -m fuzz --what meshes --only {seed}\n{outcome.detail}\n{describe(case)}"
    assert kinds == {"agrees": 12}


@pytest.mark.parametrize("seed", [96, 181, 193, 378])
def test_what_was_wrong_once(seed: int) -> None:
    """A product of rounded numbers that sums nothing, and gradients: totals of no key, and a collective in between."""
    case = graph_case_of(seed)
    outcome = check_on_mesh(case, "cpu", slopes=True)
    assert not outcome.bad, f"{outcome.detail}\n{describe(case)}"


def test_meshes_of_all_sizes_cut_by_every_axis() -> None:
    found = [placed(graph_case_of(seed)) for seed in range(400)]
    sizes = {each.mesh.size() for each in found}
    assert {1, 2, 3, 4, 6, 8, 9, 16, 64, 72} <= sizes
    assert max(sizes) == 72
    cuts = {cut for each in found for mine in each.cuts for cut in mine}
    assert {"", "x", "y", "z", "x y", "y x", "z x"} <= cuts


def test_a_wrong_sum_is_found() -> None:
    assert placed(SUM).cuts != (("",),)
    assert check_on_mesh(SUM, "cpu").kind == "agrees"

    def twice(node: Node, mesh: Mesh, held: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        join_into(node, mesh, held, results)
        for result in results:
            result[...] = 2 * result + 1

    with mock.patch.object(collective_step, "join_into", twice):
        assert check_on_mesh(SUM, "cpu").kind == "differs"


def test_a_device_that_has_something_else_is_found() -> None:
    def late(node: Node, mesh: Mesh, held: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        join_into(node, mesh, held, results)
        results[-1][...] += 1

    with mock.patch.object(collective_step, "join_into", late):
        outcome = check_on_mesh(SUM, "cpu")
    assert outcome.kind == "differs"
    assert "has another copy" in outcome.detail
