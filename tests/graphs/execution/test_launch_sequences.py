"""Sequences of launches: what moves, what stays in the arena, and parts of what moves."""

import numpy as np
import pytest

from support.gradients import graph_of
from support.interpreted_gpu import InterpretedDriver, install
from support.operators import drawn
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.settings import overridden
from tessera.graphs.executable import Executable
from tessera.graphs.execution.frames import Frame
from tessera.graphs.execution.launch_sequences import LaunchSequence
from tessera.graphs.execution.supply import DeviceSupply
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.session.session import resolve_target


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> InterpretedDriver:
    return install(monkeypatch, InterpretedDriver())


def test_inputs_and_outputs_move_and_the_rest_stays(gpu: InterpretedDriver):
    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        y = b.contract(x, b.reshape(x, (4, 4)), [(0, 1), (1, 2)], (0, 2))
        return b.reduce(b.contract(y, y, [(0, 1), (1, 2)], (0, 2)), (0,)), b.reduce(y, (1,))

    executable, target = Executable(graph_of(make, (f32, (4, 4)))), resolve_target("cuda:sm_90a")
    gpu.know(executable.kernels(target))
    x = drawn((4, 4), np.float32)
    with overridden(target="cuda:sm_90a"):
        ready = executable.prepared(target, (True,), (to_device(x),))
    frame = Frame(ready.plan, DeviceSupply(0))
    sequence = LaunchSequence(ready.steps, ready.plan, frame, 0)
    outputs = [ready.plan.root(value) for value in ready.graph.outputs]
    assert set(sequence.moving) == {*ready.graph.inputs, *outputs}
    assert not set(sequence.moving) & set(frame.views)
    for seed in range(4):
        x = drawn((4, 4), np.float32, seed)
        given = to_device(x)
        made = [DeviceArray(value.type.shape, np.dtype(np.float32)) for value in outputs]
        places = dict(zip((*ready.graph.inputs, *outputs), [each.address for each in (given, *made)], strict=True))
        sequence.begin(places, gpu, 0)
        y = x.astype(np.float64) @ x
        for found, want in zip(made, ((y @ y).sum(0), y.sum(1)), strict=True):
            np.testing.assert_allclose(found.get(), want, rtol=1e-4, atol=1e-4)
    assert sequence.launches is not None
    assert sequence.launches.captured == len(ready.steps)
