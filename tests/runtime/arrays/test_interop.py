"""What other libraries' arrays are asked, by stand-ins for them."""

import sys
from types import SimpleNamespace
from typing import TypedDict

import ml_dtypes
import numpy as np
import pytest

from support import fake_cuda, fake_libraries
from support.fake_cuda import FakeDriver
from support.fake_libraries import Libraries
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray
from tessera.runtime.arrays import interop
from tessera.runtime.arrays.interop import (
    UsedLibraries,
    default_stream,
    library_of,
    require_writable,
    stream_of,
    torch_dtype,
    waits_for_the_end,
)
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.runtime.memory.owned import to_device


class Facts(TypedDict, total=False):
    """What a tensor may be besides its memory."""

    negative: bool
    layout: str


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> Libraries:
    return fake_libraries.install(monkeypatch, fake)


def test_names(others: Libraries):
    arrays = (X, others.tensor(X), others.array(X), others.frozen(X), 3)
    assert [library_of(value) for value in arrays] == ["numpy", "torch", "cupy", "jax", "builtins"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float32", np.float32), ("bool", np.bool_), ("bfloat16", ml_dtypes.bfloat16), ("uint16", np.uint16),
     ("float8_e4m3fn", ml_dtypes.float8_e4m3fn), ("complex64", np.complex64)],
)  # fmt: skip
def test_torch_names_of_types(name: str, dtype: type):
    known, strange = SimpleNamespace(dtype=f"torch.{name}"), SimpleNamespace(dtype="torch.quint8")
    assert torch_dtype(known) == dtype  # pyright: ignore[reportArgumentType] - asked for its dtype alone
    assert torch_dtype(strange) is None  # pyright: ignore[reportArgumentType] - asked for its dtype alone


def test_tensors_are_described_in_their_own_words(others: Libraries):
    """By DLPack, they refuse when they require gradients; the stand-in always does."""
    tensor = others.tensor(X, requires_grad=True)
    view = device_view(tensor, "x")
    assert (view.ctypes.data, view.shape, view.strides, view.dtype) == (tensor.address, (3, 4), (16, 4), np.float32)
    assert is_on_device(tensor)
    assert device_view(fake_libraries.Tensor(4096, (3, 4), (1, 3)), "x").strides == (4, 12)
    assert not is_on_device(fake_libraries.Tensor(4096, (3, 4), device=-1))
    strange = fake_libraries.Tensor(4096, (3,))
    strange.dtype = "torch.quint8"
    with pytest.raises(NotAnArray, match=r"x holds torch\.quint8, a type that kernels cannot have"):
        device_view(strange, "x")


@pytest.mark.parametrize(
    ("facts", "words", "remedy"),
    [
        ({"negative": True}, "x is a view of numbers that are negated only when PyTorch reads them", "x.resolve_neg()"),
        ({"layout": "torch.sparse_csr"}, "x is a sparse_csr tensor", "x.to_dense()"),
    ],
)
def test_what_is_not_in_a_tensors_memory(others: Libraries, facts: Facts, words: str, remedy: str):
    with pytest.raises(NotAnArray, match=words) as caught:
        device_view(others.tensor(X, **facts), "x")
    assert caught.value.hint == f"pass {remedy}"


def test_a_result_that_requires_a_gradient(others: Libraries):
    tensor = others.tensor(X, requires_grad=True)
    with pytest.raises(ReadOnlyArray, match="x is written by the kernel and requires a gradient") as caught:
        device_view(tensor, "x", mutable=True)
    assert "torch.no_grad()" in caught.value.hint
    others.grad = False
    require_writable(tensor, "x")
    require_writable(X, "x")


def test_streams_are_those_that_are_current(others: Libraries):
    tensor, array = others.tensor(X), others.array(X)
    torch, cupy = stream_of(tensor, 0), stream_of(array, 0)
    assert torch is stream_of(others.tensor(X), 0) is not stream_of(tensor, 1)
    assert (torch(), cupy()) == (0, 0)
    assert UsedLibraries.streams == {0: {}, 1: {}}
    others.torch_stream, others.cupy_stream = 77, SimpleNamespace(ptr=88)
    assert (torch(), cupy()) == (77, 88)
    assert UsedLibraries.streams[0] == {
        77: None,
        88: others.cupy_stream,
    }  # which stays, as long as it may have to be waited for


def test_streams_of_cupy_that_were_used_long_ago_may_go(others: Libraries):
    cupy = stream_of(others.array(X), 0)
    for address in range(1, 200):
        others.cupy_stream = SimpleNamespace(ptr=address)
        assert cupy() == address
    assert list(UsedLibraries.streams[0]) == list(range(135, 200))


def test_arrays_that_say_their_stream_and_those_that_have_none(others: Libraries):
    interface = {"data": (4096, False), "shape": (3,), "typestr": "<f4", "version": 3}

    def say(stream: int | None) -> SimpleNamespace:
        return SimpleNamespace(__cuda_array_interface__={**interface, "stream": stream})

    assert stream_of(say(99), 0)() == 99
    assert stream_of(say(99), 0) is stream_of(say(99), 1)
    for value in (say(1), say(None), SimpleNamespace(), others.frozen(X), to_device(X)):
        assert stream_of(value, 0) is default_stream
    assert default_stream() == 0


def test_jax_goes_on_by_itself(others: Libraries):
    frozen = others.frozen(X)
    assert waits_for_the_end(frozen)
    assert not waits_for_the_end(others.tensor(X))
    device_view(frozen, "x")
    assert frozen.ready


def test_allocators_give_back_what_no_array_is_in(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []

    def torch(*, used: bool) -> object:
        cuda = SimpleNamespace(is_initialized=lambda: used, empty_cache=lambda: calls.append("torch"))
        return SimpleNamespace(cuda=cuda)

    pool = SimpleNamespace(free_all_blocks=lambda: calls.append("cupy"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(get_default_memory_pool=lambda: pool))
    monkeypatch.setitem(sys.modules, "torch", torch(used=False))
    interop.release_cached_blocks()
    assert calls == ["cupy"]
    monkeypatch.setitem(sys.modules, "torch", torch(used=True))
    interop.release_cached_blocks()
    assert calls == ["cupy", "torch", "cupy"]
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name)
    interop.release_cached_blocks()
    assert len(calls) == 3


def test_nothing_is_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(interop.sys.modules, "torch", raising=False)
    assert interop.torch_types() == ()
    assert not interop.is_torch(fake_libraries.Tensor(0, (1,)))


def test_subclasses_of_tensors_are_tensors_that_do_not_answer_for_themselves(others: Libraries):
    class Named(fake_libraries.Tensor):
        pass

    tensor = Named(4096, (3, 4), requires_grad=True)
    assert interop.is_tensor(tensor)
    assert not interop.is_torch(tensor)
    assert stream_of(tensor, 0) is stream_of(others.tensor(X), 0)
    with pytest.raises(ReadOnlyArray):
        require_writable(tensor, "x")
    with pytest.raises(NotAnArray, match="x is a view of numbers that are negated"):
        device_view(Named(4096, (3, 4), negative=True), "x")
