"""Which target a call runs on."""

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.kernels.options import Options
from tessera.kernels.target_choice import chosen_target, target_at_hand

HOST = (np.zeros(4, np.float32),)


@pytest.fixture(params=[4, 0])
def device(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[object]:
    """An array on a GPU, with and without elements."""
    fake = fake_cuda.install(monkeypatch, FakeDriver(run=False))
    return (fake.device_array(np.zeros(request.param, np.float32)),)


@pytest.mark.parametrize(
    ("setting", "option", "on_host", "on_device"),
    [
        ("cpu", None, "cpu", "cuda:sm_90a"),
        ("cpu", "cpu", "cpu", "cpu"),
        ("cpu", "cuda", "cuda:sm_90a", "cuda:sm_90a"),
        ("interpret", None, "interpret", "interpret"),
        ("cuda_tile", None, "cuda_tile:sm_90", "cuda_tile:sm_90"),
        ("cuda:sm_80", None, "cuda:sm_80", "cuda:sm_80"),
        ("cuda", "cuda_tile:sm_100", "cuda_tile:sm_100", "cuda_tile:sm_100"),
    ],
)
def test_options_settings_and_arrays_decide(
    device: tuple[object], setting: str, option: str | None, on_host: str, on_device: str
):
    with overridden(target=setting):
        options = Options(target=option)
        assert str(chosen_target(options, HOST)).startswith(on_host)
        assert str(chosen_target(options, device)).startswith(on_device)


def test_sanitized_kernels_are_interpreted(device: tuple[object]):
    assert chosen_target(Options(sanitize=True, target="cuda"), device) == Target("interpret", "")


def test_the_gpu_at_hand_says_what_to_compile_for(device: tuple[object], monkeypatch: pytest.MonkeyPatch):
    fake_cuda.install(monkeypatch, FakeDriver(run=False)).capability = lambda device: (8, 9)
    general = Target("cuda", "sm_90a")
    assert target_at_hand(Options(target="cuda"), general, HOST) == Target("cuda", "sm_89")
    assert target_at_hand(Options(target="cuda:sm_90a"), general, HOST) is general
    host = Target("cpu", "znver5")
    assert target_at_hand(Options(), host, HOST) is host
