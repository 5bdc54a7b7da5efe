"""A launch as a graph of one node: made by capturing it, and given new parameters when they have changed."""

import ctypes
import gc

import numpy as np
import pytest

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.driver.descriptors import launch_config
from tessera.runtime.launch.graph_launch import SingleNodeGraph
from tessera.runtime.launch.parameter_buffer import ParameterBuffer, ParameterLayout
from tessera.runtime.memory.owned import to_device


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(run=False))


def single(fake: FakeDriver, stream: int = 0) -> tuple[SingleNodeGraph, ParameterBuffer]:
    artifact = raw_kernels.spin()
    function = fake.load(artifact.code, artifact.entry)
    block = ParameterBuffer(ParameterLayout(artifact))
    return SingleNodeGraph(fake, ctypes.c_void_p(function), launch_config(3, 32, 0), block, stream), block


def test_it_is_captured_and_then_launched_on_its_stream(fake: FakeDriver):
    launch, _ = single(fake, 77)
    assert fake.sizes == []
    assert launch.start() == 0
    assert fake.streams == [77]
    assert fake.sizes == [(3, 32, 0)]
    assert not fake.captured


def test_changed_parameters_are_given_to_the_graph(fake: FakeDriver):
    fake.keep = [8, 8]
    launch, block = single(fake)
    block.write(1, (5).to_bytes(8, "little"))
    assert launch.version != block.version
    assert launch.update() == 0
    assert launch.version == block.version
    launch.start()
    assert int.from_bytes(fake.parameters[0][1], "little") == 5


def test_it_goes_with_the_launch(fake: FakeDriver):
    launch, _ = single(fake)
    fake.log.clear()
    del launch
    gc.collect()
    assert fake.log == [("close executable",), ("close graph",)]


def test_what_cannot_be_captured(fake: FakeDriver):
    fake.statuses = [1]
    with pytest.raises(CudaFailure, match="cuLaunchKernelEx: 1"):
        single(fake)
    assert not fake.captured
    assert ("close graph",) in fake.log


def test_what_cannot_be_made_leaves_nothing_behind(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    def refuse(graph: object) -> int:
        raise CudaFailure("out of memory")

    for step, left in (("instantiate", [("close graph",)]), ("only_node", [("close executable",), ("close graph",)])):
        fake.log.clear()
        with monkeypatch.context() as patch:
            patch.setattr(fake, step, refuse)
            with pytest.raises(CudaFailure, match="out of memory"):
                single(fake)
        assert [entry for entry in fake.log if entry[0] != "close"] == left


def test_it_is_captured_apart_from_the_default_stream(fake: FakeDriver):
    captured: list[int] = []
    begin = fake.begin_capture

    def noted(stream: int) -> None:
        captured.append(stream)
        begin(stream)

    fake.begin_capture = noted
    single(fake)
    assert set(captured) <= fake.apart
    assert len(captured) == 1


@pytest.mark.gpu
def test_new_parameters_on_a_gpu():
    from tessera.runtime.launch import cuda  # noqa: PLC0415

    launcher = cuda.CudaLauncher(raw_kernels.stride())
    arrays = [to_device(np.zeros(1000, np.float32)) for _ in range(3)]
    for _ in range(5):
        for x in arrays:
            launcher(x)
    assert [x.get().tolist() for x in arrays] == [[5.0] * 1000] * 3
