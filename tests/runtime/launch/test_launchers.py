"""The modules that the rows of the table of targets name, and what they load."""

import numpy as np
import pytest

from support import fake_cuda, programs
from support.fake_cuda import FakeDriver
from tessera.core.targets import TARGETS, Target, TargetKind
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.launch.launchers import Loadable, Runtime, runtime_of

TYPES = (object, object, float)


def loaded(target: Target, *, phased: bool = False):
    program = programs.saxpy()
    artifacts = (compile_program(program, target, observe=False).artifact,) if target.kind.backend else ()
    return runtime_of(target.kind).load(Loadable(program, artifacts, (), TYPES, phased=phased))


@pytest.mark.parametrize("kind", TARGETS.values(), ids=lambda kind: kind.name)
def test_each_row_names_a_runtime(kind: TargetKind):
    assert isinstance(runtime_of(kind), Runtime)


@pytest.mark.parametrize("phased", [False, True])
def test_kernels_of_the_host_have_a_quick_way_and_no_streams(phased: bool):
    launcher = loaded(host_target(), phased=phased)
    x, y = np.ones(5, np.float32), np.ones(5, np.float32)
    assert launcher.on_streams is None
    assert launcher.quick is not None
    assert launcher.quick((x, y, 2.0))
    assert not launcher.quick((x, y))
    assert y.tolist() == [3.0] * 5
    assert runtime_of(TARGETS["cpu"]).architecture(TARGETS["cpu"], None) == ""


def test_interpreted_kernels_look_at_all_arguments():
    launcher = loaded(Target("interpret", ""))
    assert (launcher.quick, launcher.on_streams) == (None, None)
    x, y = np.ones(5, np.float32), np.ones(5, np.float32)
    launcher(x, y, 2.0)
    assert y.tolist() == [3.0] * 5


@pytest.mark.parametrize("phased", [False, True])
def test_kernels_of_gpus_are_put_on_streams(monkeypatch: pytest.MonkeyPatch, phased: bool):
    fake_cuda.install(monkeypatch, FakeDriver(run=False))
    launcher = loaded(Target("cuda", "sm_90a"), phased=phased)
    assert launcher.on_streams is launcher
    found = [runtime_of(TARGETS[name]).architecture(TARGETS[name], None) for name in ("cuda", "cuda_tile")]
    assert found == ["sm_90a", "sm_90"]
