"""The door to NCCL, on a library that stands in for it: what is called with what, and what is said where it is missing."""

import ctypes
import importlib.util
import os
from collections.abc import Generator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera.core.base.dtypes import bf16
from tessera.core.errors.catalog import CudaFailure, LibraryMissing
from tessera.runtime.dist import nccl_library
from tessera.runtime.dist.nccl_library import Library, open_library
from tessera.runtime.memory.owned import to_device


class _Function:
    restype: object = None

    def __init__(self, home: "FakeLibrary", name: str) -> None:
        self.home, self.name = home, name

    def __call__(self, *arguments: Any) -> object:  # noqa: ANN401 - whatever ctypes takes
        if self.name == "ncclGetErrorString":
            return b"invalid argument"
        if self.name == "ncclCommInitAll":
            assert os.environ["NCCL_NVLS_ENABLE"] == "0"
            handles, count, devices = arguments
            handles[:] = [100 + devices[place] for place in range(count)]
        if self.name == "ncclGetVersion":
            arguments[0]._obj.value = 22809
        self.home.calls.append((self.name.removeprefix("nccl"), *map(_plain, arguments)))
        return self.home.status


class FakeLibrary:
    """The functions of libnccl.so.2, which note what they are given."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.status = 0
        self.functions: dict[str, _Function] = {}

    def __getattr__(self, name: str) -> _Function:
        return self.functions.setdefault(name, _Function(self, name))


def _plain(argument: object) -> object:
    return argument.value if isinstance(argument, ctypes.c_void_p | ctypes.c_size_t) else argument


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    fake_cuda.install(monkeypatch, FakeDriver(4, run=False))
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    open_library.cache_clear()
    yield
    open_library.cache_clear()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    made = FakeLibrary()
    monkeypatch.setattr(nccl_library.ctypes, "CDLL", lambda _: made)
    return made


def test_one_communicator_a_gpu_and_no_multicast(fake: FakeLibrary):
    library = Library([2, 3])
    assert library.version == "2.28.9"
    fake.calls.clear()
    x, y = to_device(np.arange(6, dtype=np.float32), 2), to_device(np.zeros(6, np.float32), 2)
    first, second = library.communicators
    with library.group():
        first.send(x, 1, stream=7)
        second.recv(y, 0, stream=8)
        first.allreduce(x, y, 0, stream=7)
        first.allgather(x, y, stream=7)
        first.reduce_scatter(x, y, 0, stream=7)
    library.abort()
    assert fake.calls == [
        ("GroupStart",),
        ("Send", x.address, 24, 1, 1, 102, 7),
        ("Recv", y.address, 24, 1, 0, 103, 8),
        ("AllReduce", x.address, y.address, 6, 7, 0, 102, 7),
        ("AllGather", x.address, y.address, 24, 1, 102, 7),
        ("ReduceScatter", x.address, y.address, 6, 7, 0, 102, 7),
        ("GroupEnd",),
        ("CommAbort", 102),
        ("CommAbort", 103),
    ]


def test_operators_and_types(fake: FakeLibrary):
    library = Library([0])
    f32, brain = np.dtype(np.float32), bf16.numpy
    assert [library.operator(op, f32) for op in ("sum", "prod", "max", "min", "mean", "xor")] == [0, 1, 2, 3, 4, None]
    assert library.operator("sum", brain) == 0
    assert library.operator("sum", np.dtype(np.int16)) is None
    assert fake.calls


def test_what_nccl_refuses_is_said_in_its_words(fake: FakeLibrary):
    fake.status = 4
    with pytest.raises(CudaFailure) as mistake:
        Library([0, 1])
    assert mistake.value.message == "ncclCommInitAll: invalid argument"
    assert mistake.value.hint == "NCCL_DEBUG=INFO says more"


def test_the_wheels_library_comes_before_the_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "lib" / "libnccl.so.2"
    file.parent.mkdir()
    file.touch()
    spec = ModuleSpec("nvidia.nccl", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    tried: list[str] = []

    def load(place: str) -> FakeLibrary:
        tried.append(place)
        if len(tried) == 1:
            raise OSError("no such thing")
        return FakeLibrary()

    monkeypatch.setattr(nccl_library.ctypes, "CDLL", load)
    open_library()
    assert tried == [str(file), "libnccl.so.2"]


def test_without_nccl_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    def missing(_: str) -> object:
        raise OSError("libnccl.so.2: cannot open shared object file")

    monkeypatch.setattr(nccl_library.ctypes, "CDLL", missing)
    with pytest.raises(LibraryMissing) as mistake:
        Library([0, 1])
    assert mistake.value.message == "NCCL is not installed (libnccl.so.2), and GPUs exchange large values by it"
    assert mistake.value.hint == "pip install 'tessera[mesh]'"
