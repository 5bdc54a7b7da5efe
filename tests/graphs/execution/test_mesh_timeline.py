"""Timelines of graphs on meshes: on the virtual clock by hand, and as a run was watched."""

from itertools import pairwise

import numpy as np
import pytest

from support.mesh_mlp import arrays, line, mlp
from tessera.core.placement.link_costs import LINKS
from tessera.core.planning.device_timeline import COMMUNICATION, COMPUTE, HOST, VIRTUAL
from tessera.graphs.execution.mesh_timeline import collective_of, cost_of, named, planned_timeline
from tessera.graphs.mesh_executable import MeshExecutable


def executable(*, stored: bool = False, devices: int = 8) -> tuple[MeshExecutable, tuple[object, ...]]:
    given = arrays(line(devices), stored=stored)
    found = mlp.executable_for(*given)
    assert isinstance(found, MeshExecutable)
    return found, given


def test_kernels_and_collectives_on_the_virtual_clock():
    found, _ = executable()
    timeline = planned_timeline(found.plan, found.mesh, lambda _: 1e-6)
    assert (timeline.clock, len(timeline.rows)) == (VIRTUAL, 8)
    assert all(row.spans == timeline.rows[0].spans for row in timeline.rows)
    spans = timeline.rows[0].spans
    (moved,) = [span for span in spans if span.kind == COMMUNICATION]
    # 8 rows of 8 f32, summed over tp: each device sends 2 * 3/4 of that.
    assert moved.sent == 2 * 3 / 4 * 8 * 8 * 4
    assert moved.seconds == pytest.approx(LINKS.seconds("all_reduce", found.mesh, ("tp",), moved.sent))
    assert moved.basis.startswith("unmeasured: ")
    kernels = [span for span in spans if span.kind == COMPUTE]
    assert all(span.seconds == pytest.approx(1e-6) for span in kernels)
    # The last kernel reads what was summed.
    assert kernels[-1].start == pytest.approx(moved.end)
    assert timeline.seconds == pytest.approx(len(kernels) * 1e-6 + moved.seconds)
    assert found.timeline().rows[0].spans[0].seconds > 0


def test_a_mesh_of_one_device_sends_nothing():
    given = arrays(line(1, 1), stored=False)
    found = mlp.executable_for(*given)
    assert isinstance(found, MeshExecutable)
    assert found.timeline().shares[COMMUNICATION] == 0


def test_shapes_of_any_size_are_planned_without_memory():
    given = arrays(line(72, 8), stored=False, rows=9 << 20, width=1 << 14, hidden=1 << 16)
    found = mlp.executable_for(*given)
    assert isinstance(found, MeshExecutable)
    timeline = found.timeline()
    assert len(timeline.rows) == 72
    assert timeline.seconds > 0.1


def test_a_run_that_is_watched_has_the_same_results_and_every_step_of_every_device():
    found, given = executable(stored=True)
    (made,), timeline = found.watched(*given)
    np.testing.assert_array_equal(np.asarray(made), np.asarray(mlp(*given)))
    assert timeline.clock == HOST
    for row in timeline.rows:
        assert [span.operator for span in row.spans] == list(range(len(found.plan.groups)))
        assert all(a.end <= b.start for a, b in pairwise(row.spans))
    joined = [span for span in timeline.rows[0].spans if span.kind == COMMUNICATION]
    assert joined == [span for span in timeline.rows[7].spans if span.kind == COMMUNICATION]
    assert joined[0].basis == "host: measured in this process"


def test_names_and_costs_of_groups():
    found, _ = executable()
    groups = [group for group in found.plan.groups if collective_of(group) is not None]
    assert len(groups) == 1
    assert named(groups[0]).startswith("all_reduce over tp of ")
    node = collective_of(groups[0])
    assert node is not None
    assert cost_of(node, found.mesh).sent == 384
