"""The CUDA driver's door: what failures become, and how waits end."""

import sys
from types import SimpleNamespace

import pytest

from tessera.core.mistakes import ContextLost, CudaFailure
from tessera.core.source import Source, Span
from tessera.runtime.driver import Driver, Launched, poll


def test_without_cuda_bindings_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CudaFailure, match="cuda-bindings is not installed") as caught:
        Driver()
    assert "pip install cuda-bindings" in caught.value.hint


def test_a_fault_of_the_kernel_is_reported_where_it_is_waited_for():
    api = SimpleNamespace(
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        cuGetErrorString=lambda status: (0, b"an illegal memory access was encountered"),
        cuStreamSynchronize=lambda stream: (700,),
    )
    driver = cuda.Driver.__new__(cuda.Driver)
    driver._api = api
    with pytest.raises(CudaFailure, match="cuStreamSynchronize: 700: an illegal memory access"):
        driver.wait(0)
