"""The blocks of a group's kernel."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.operators import drawn
from tessera import graph, op
from tessera.core.schedule.plan import Group
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction
from tessera.graphs.steps import steps_of
from tessera.performance.machine_kind import MachineKind

CPU = MachineKind(None, None, 1 << 16)


def only_group(function: object, *arrays: NDArray[Any]) -> Group:
    made = graph.module(function)  # type: ignore[arg-type]
    assert isinstance(made, GraphFunction)
    with overridden(target="interpret"):
        made(*arrays)
    (group,) = made.executable.plan.groups
    return group


@pytest.mark.parametrize(("shape", "blocks"), [((5000,), {0: 1024}), ((3, 4), {0: 16}), ((0,), {0: 1})])
def test_maps_have_about_4096_elements(shape: tuple[int, ...], blocks: dict[int, int]):
    group = only_group(lambda x: x + 1, drawn(shape, np.float32))
    assert steps_of(group, CPU).blocks == blocks


def test_rows_read_with_steps_are_taken_one_by_one():
    group = only_group(lambda x: x[::2], drawn((4, 5, 6), np.float32))
    assert steps_of(group, CPU).blocks == {1: 32}


def test_rows_of_a_reduction_are_whole():
    group = only_group(op.softmax.function, drawn((100, 33), np.float32))
    assert 33 in steps_of(group, CPU).blocks.values()


def test_the_blocks_that_the_user_asked_for():
    a, b = drawn((200, 300), np.float32, 1), drawn((300, 250), np.float32, 2)
    group = only_group(lambda a, b: op.matmul(a, b, tile_shape=(64, 32, 16)), a, b)
    assert steps_of(group, CPU).blocks == {0: 64, 1: 32, 2: 16}
