"""Code in the memory of a GPU: what is known of it once it is loaded."""

from dataclasses import replace

import pytest

from support import raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.driver.modules import DeviceCode


def test_it_is_loaded_in_the_current_context():
    fake, artifact = FakeDriver(2), raw_kernels.null()
    with fake.inside(1):
        code = DeviceCode(fake, artifact, bounded=False)
    assert (code.context, code.device, code.resident) == (2, 1, 0)
    assert artifact.entry in fake.functions[code.function]
    assert fake.used == {1}


def test_blocks_that_run_at_a_time_are_whole_clusters():
    fake, artifact = FakeDriver(), raw_kernels.null()
    clustered = replace(artifact, launch=replace(artifact.launch, cluster=4))
    assert DeviceCode(fake, artifact, bounded=True).resident == 2
    assert DeviceCode(fake, clustered, bounded=True).resident == 8


def test_what_the_driver_refuses_counts_for_nothing(monkeypatch: pytest.MonkeyPatch):
    fake = FakeDriver()

    def refuse(code: bytes, entry: str) -> int:
        raise CudaFailure("cuModuleLoadData: no binary for this GPU")

    monkeypatch.setattr(fake, "load", refuse)
    with pytest.raises(CudaFailure):
        DeviceCode(fake, raw_kernels.null(), bounded=False)
    assert fake.used == set()
