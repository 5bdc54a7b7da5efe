"""Plans: which arguments, settings and surroundings a kernel that was made ready is good for."""

import numpy as np
import pytest

import tessera
from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera import stream
from tessera.core.settings import overridden
from tessera.runtime.memory.owned import to_device

TEXT = """
SCALE = 2.0

@kernel
def scale(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = SCALE * x[i]
"""

WITHOUT_TYPES = """
@kernel
def scale(x, y):
    i = launch.thread_id()
    y[i] = 2 * x[i]
"""


def test_a_plan_is_good_for_arguments_of_its_kind_only():
    module = tessera.compile_source(TEXT)
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    module.scale(x, y)
    plan = module.scale._latest
    assert plan.valid()
    assert plan.run((np.ones(5, np.float32), np.zeros(5, np.float32)))
    assert not plan.run((np.ones(5), np.zeros(5)))
    assert not plan.run((x,))
    assert not plan.run_on((x, y), None, stream.new())  # the CPU has no quick way for a stream
    assert plan.run_on((x, y), None, None)


def test_calls_of_several_kinds_take_turns_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    fake = fake_cuda.install(monkeypatch, FakeDriver(run=False))
    any_type = tessera.compile_source(WITHOUT_TYPES).scale
    kinds = [[to_device(np.ones(64, dtype)) for _ in range(2)] for dtype in (np.float32, np.float64)]
    for arrays in kinds:
        any_type(*arrays)
        assert any_type.last.target.name == "cuda"
    monkeypatch.setattr(any_type, "launch", None)  # what follows must do without
    for arrays in kinds * 2:
        any_type(*arrays)
        assert any_type.last.artifact.bindings[0].type.dtype.numpy == arrays[0].dtype
    assert len(fake.sizes) == 6


def test_settings_and_surroundings_make_it_old():
    module = tessera.compile_source(TEXT)
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    module.scale(x, y)
    plan = module.scale._latest
    with overridden(threads=1):
        assert not plan.run((x, y))
    assert plan.run((x, y))
    vars(module)["SCALE"] = 3.0
    assert not plan.run((x, y))
    assert not plan.valid()
    module.scale(x, y)
    assert (y == 3).all()
