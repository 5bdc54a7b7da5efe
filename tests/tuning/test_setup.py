"""What a search runs on."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from support.fake_cuda import FakeDriver
from tessera.core.settings import overridden
from tessera.runtime.driver import driver
from tessera.runtime.launch import cuda
from tessera.tuning.setup import device_name, pinned_kernel, record_of

SOURCE = """
STEP = 32
EXTRA = 1

@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP] + EXTRA

@kernel(sanitize=True)
def checked(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=32):
        y[t:t+32] = x[t:t+32]
"""


@pytest.fixture
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


def test_a_kernel_is_pinned_to_where_its_arrays_lie(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    fake = FakeDriver()
    for place in (driver, cuda):
        monkeypatch.setattr(place, "driver", lambda: fake)
    host = (np.zeros(8, np.float32), np.zeros(8, np.float32))
    device = tuple(fake.device_array(array) for array in host)
    assert pinned_kernel(module.doubled, module.doubled.target_for(host), host).options.target == "cpu"
    assert pinned_kernel(module.doubled, module.doubled.target_for(device), device).options.target == "cuda:sm_90a"
    with overridden(target="cuda"):  # NumPy arrays on the GPU at hand
        assert pinned_kernel(module.doubled, module.doubled.target_for(host), host).options.target == "cuda:sm_90a"
    assert pinned_kernel(module.checked, module.checked.target_for(host), host) is module.checked


def test_the_device_has_its_threads(module: ModuleType):
    target = module.doubled.target_for()
    with overridden(threads=3):
        assert device_name(target, ()) == f"{target} x3"


def test_a_record_depends_on_the_constants_that_the_kernel_reads(module: ModuleType):
    x = (np.zeros(100, np.float32), np.zeros(100, np.float32))
    first = record_of(module.doubled, x, {"STEP": ()}, "cpu")
    vars(module)["STEP"] = 64  # which is tuned, so that its own value is no matter
    assert record_of(module.doubled, x, {"STEP": ()}, "cpu") == first
    vars(module)["EXTRA"] = 2
    assert record_of(module.doubled, x, {"STEP": ()}, "cpu") != first
    assert record_of(module.doubled, x, {"STEP": ()}, "cpu x2") != record_of(module.doubled, x, {"STEP": ()}, "cpu")
