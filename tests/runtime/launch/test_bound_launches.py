"""Launches that are bound: begun one by one, then as one graph, with arguments that move."""

import gc

import numpy as np
import pytest

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.launch.bound_launches import GRAPH_AFTER, MOST_COPIES, BoundLaunches, MovingArgument
from tessera.runtime.launch.cuda import CudaLauncher
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.memory.owned import DeviceArray, to_device


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(run=False))


def array() -> DeviceArray:
    return to_device(np.zeros(8, np.float32))


def launches(count: int) -> tuple[list[LaunchPlan], DeviceArray]:
    """Launches of one kernel on one array."""
    launcher, x = CudaLauncher(raw_kernels.null()), array()
    made = [launcher.prepare((x,)) for _ in range(count)]
    return [plan for plan in made if plan is not None], x


def pointers(fake: FakeDriver) -> list[int]:
    return [int.from_bytes(each[0], "little") for each in fake.parameters]


def test_they_are_begun_in_order_on_the_stream(fake: FakeDriver):
    plans, _ = launches(3)
    bound = BoundLaunches(fake, plans, [])
    for stream in (0, 55, 55, 0):
        fake.streams.clear()
        bound.begin(stream)
        assert fake.streams == [stream] * 3
    assert bound.captured == 3
    assert sum(entry[0] == "replay" for entry in fake.log) == 4 - GRAPH_AFTER


def test_arguments_move_in_launches_and_in_graphs(fake: FakeDriver):
    plans, x = launches(3)
    fake.keep = [8]
    bound = BoundLaunches(fake, plans, [MovingArgument(0, 0, 1, 0), MovingArgument(2, 0, 1, 4)], [0, x.address])
    for number in range(GRAPH_AFTER + 3):
        place = x.address if number % 2 else x.address + 64
        bound.places[1] = place
        fake.parameters.clear()
        bound.begin(0)
        assert pointers(fake) == [place, x.address, place + 4]


def test_tensor_maps_move_with_their_array(fake: FakeDriver):
    x, out = to_device(np.zeros((32, 64), np.float32)), to_device(np.zeros((2, 16, 64), np.float32))
    plan = CudaLauncher(raw_kernels.window()).prepare((x, out))
    assert plan is not None
    fake.keep = [128, 8, 8]
    bound = BoundLaunches(fake, [plan], [MovingArgument(0, 0, 0, 0)], [x.address])
    bound.begin(0)
    bound.places[0] = x.address + 4096
    bound.begin(0)
    assert [each.address for each in fake.encoded] == [x.address, x.address + 4096]
    assert [each[0][0] for each in fake.parameters] == [1, 2]
    assert [int.from_bytes(each[2], "little") for each in fake.parameters] == [x.address, x.address + 4096]


def test_only_what_has_moved_is_set(fake: FakeDriver):
    plans, x = launches(4)
    fake.keep = [8]
    bound = BoundLaunches(fake, plans, [MovingArgument(1, 0, 0, 0)], [x.address])
    for _ in range(GRAPH_AFTER + 1):
        bound.begin(0)
    fake.log.clear()
    bound.places[0] = x.address + 8
    bound.begin(0)
    bound.begin(0)
    assert [entry[0] for entry in fake.log if entry[0] in ("replay", "set parameters")] == [
        "set parameters", "replay", "replay"
    ]  # fmt: skip


def test_what_cannot_be_told_apart_is_no_graph(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    plans, _ = launches(2)
    monkeypatch.setattr(fake, "kernel_nodes", lambda graph, count: [(7 + n, 1, 0) for n in range(count)])
    bound = BoundLaunches(fake, plans, [])
    for _ in range(GRAPH_AFTER + 2):
        bound.begin(0)
    assert bound.captured == 0
    assert len(fake.streams) == 2 * (GRAPH_AFTER + 2)


def test_a_graph_goes_with_the_launches(fake: FakeDriver):
    bound = BoundLaunches(fake, launches(2)[0], [])
    for _ in range(GRAPH_AFTER + 1):
        bound.begin(0)
    fake.log.clear()
    del bound
    gc.collect()
    assert [entry for entry in fake.log if entry[0].startswith("close ")] == [("close executable",), ("close graph",)]


def test_what_the_driver_refuses_is_launched_one_by_one(fake: FakeDriver):
    plans, _ = launches(3)
    bound = BoundLaunches(fake, plans, [])
    for _ in range(GRAPH_AFTER + 1):
        bound.begin(0)
    fake.streams.clear()
    fake.statuses = [1]
    bound.begin(0)
    assert fake.streams == [0] * 3
    fake.statuses = [0, 0, 1]
    with pytest.raises(CudaFailure, match=plans[0].kernel.name):
        bound.begin(0)


def test_another_context_is_entered(fake: FakeDriver):
    bound = BoundLaunches(fake, launches(2)[0], [])
    for _ in range(GRAPH_AFTER + 1):
        bound.begin(0)
    fake.streams.clear()
    fake.statuses = [201]
    bound.begin(0)
    assert fake.streams == [0, 0]


def test_places_that_return_have_parameters_of_their_own(fake: FakeDriver):
    plans, x = launches(3)
    fake.keep = [8]
    bound = BoundLaunches(
        fake, plans, [MovingArgument(0, 0, 0, 0), MovingArgument(2, 0, 1, 8)], [x.address, x.address - 8]
    )
    turns = [(x.address + 64, x.address), (x.address, x.address + 128), (x.address + 192, x.address + 64)]
    for number in range(GRAPH_AFTER + 12):
        if number == GRAPH_AFTER + 6:  # by now there is a graph for each
            fake.log.clear()
        bound.places[:] = first, second = turns[number % 3]
        fake.parameters.clear()
        bound.begin(0)
        assert pointers(fake) == [first, x.address, second + 8]
    assert [entry[0] for entry in fake.log if entry[0] in ("replay", "set parameters")] == ["replay"] * 6


def test_only_so_many_graphs_are_made(fake: FakeDriver):
    plans, x = launches(2)
    fake.keep = [8]
    bound = BoundLaunches(fake, plans, [MovingArgument(1, 0, 0, 0)], [x.address])
    for number in range(GRAPH_AFTER + 5 * (MOST_COPIES + 2)):
        bound.places[0] = place = x.address + 8 * (number % (MOST_COPIES + 2))
        fake.parameters.clear()
        bound.begin(0)
        assert pointers(fake) == [x.address, place]
    assert len(fake.graphs) == MOST_COPIES
    fake.log.clear()
    del bound
    gc.collect()
    closed = [entry[0] for entry in fake.log]
    assert closed == ["close executable"] * MOST_COPIES + ["close graph"]


def test_places_that_never_return_have_one_graph(fake: FakeDriver):
    plans, x = launches(2)
    bound = BoundLaunches(fake, plans, [MovingArgument(1, 0, 0, 0)], [x.address])
    for number in range(GRAPH_AFTER + 20):
        bound.places[0] = x.address + 8 * number
        bound.begin(0)
    assert len(fake.graphs) == 1


@pytest.mark.parametrize("before", [0, 1, 2])
def test_launches_one_by_one_have_the_places_of_their_call(fake: FakeDriver, before: int):
    """A graph that is refused, at places that had parameters of their own."""
    plans, x = launches(2)
    fake.keep = [8]
    bound = BoundLaunches(fake, plans, [MovingArgument(1, 0, 0, 0)], [x.address])
    for number in range(GRAPH_AFTER + 6 + before):
        bound.places[0] = x.address + 64 * (number % 2)
        bound.begin(0)
    fake.statuses = [1]
    for number in range(4):
        bound.places[0] = place = x.address + 64 * (number % 2)
        fake.parameters.clear()
        bound.begin(0)
        assert pointers(fake) == [x.address, place]
    assert not fake.statuses


def test_further_graphs_go_to_the_stream_of_their_call(fake: FakeDriver):
    plans, x = launches(2)
    bound = BoundLaunches(fake, plans, [MovingArgument(1, 0, 0, 0)], [x.address])
    for number in range(GRAPH_AFTER + 8):
        bound.places[0] = x.address + 64 * (number % 2)
        fake.streams.clear()
        bound.begin(number % 3)
        assert fake.streams == [number % 3] * 2
