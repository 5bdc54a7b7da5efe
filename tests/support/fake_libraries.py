"""PyTorch, CuPy and JAX as far as the runtime asks them, over memory of the fake driver: what they answer, no more."""

import functools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.fake_cuda import FakeDriver
from tessera.runtime.arrays import interop

FLOAT32 = type("dtype", (), {"__repr__": lambda _: "torch.float32"})()


class Tensor:
    """A torch tensor on a GPU.  negative: torch's lazy negation; requires_grad: a leaf of a computation of gradients."""

    def __init__(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, device: int = 0,
        *, negative: bool = False, requires_grad: bool = False, layout: str = "torch.strided",
    ) -> None:  # fmt: skip
        self.address, self.shape, self.layout = address, shape, layout
        self.dtype: object = FLOAT32
        self.strides = strides or np.empty(shape, np.uint8).strides
        self.place, self.negative, self.requires_grad = device, negative, requires_grad
        self.is_cuda = device >= 0

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def is_contiguous(self) -> bool:
        return self.strides == np.empty(self.shape, np.uint8).strides

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.place

    def is_neg(self) -> bool:
        return self.negative

    def is_conj(self) -> bool:
        return False

    def detach(self) -> "Tensor":
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.place) if self.is_cuda else (1, 0)

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("Can't export tensors that require gradient")


Tensor.__module__ = "torch"


class Array:
    """A CuPy array."""

    def __init__(self, address: int, shape: tuple[int, ...], device: int = 0) -> None:
        self.data, self.shape = SimpleNamespace(ptr=address, device_id=device), shape
        self.dtype, self.strides = np.dtype(np.float32), np.empty(shape, np.float32).strides

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("it would order streams")


Array.__module__ = "cupy"


class Frozen:
    """A JAX array."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.ready = False
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape, "typestr": "<f4", "version": 3}

    def block_until_ready(self) -> "Frozen":
        self.ready = True
        return self

    def is_deleted(self) -> bool:
        return False


Frozen.__module__ = "jaxlib._jax"


class Libraries:
    """The libraries of a process; `torch_stream`, `cupy_stream`: what is current; grad: whether gradients are computed."""

    def __init__(self, fake: FakeDriver) -> None:
        self.fake, self.torch_stream, self.grad = fake, 0, True
        self.cupy_stream: Any = SimpleNamespace(ptr=0)

    def _memory(self, values: np.ndarray, device: int) -> int:
        return self.fake.device_array(np.ascontiguousarray(values, np.float32), max(0, device)).address

    def tensor(self, values: np.ndarray, device: int = 0, **facts: Any) -> Tensor:
        return Tensor(self._memory(values, device), values.shape, device=device, **facts)

    def array(self, values: np.ndarray, device: int = 0) -> Array:
        return Array(self._memory(values, device), values.shape, device)

    def frozen(self, values: np.ndarray) -> Frozen:
        return Frozen(self._memory(values, 0), values.shape)


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> Libraries:
    """Put the stand-ins in the places of torch and cupy."""
    made = Libraries(fake)
    torch = SimpleNamespace(
        Tensor=Tensor,
        nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {"__module__": "torch.nn.parameter"})),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda device: made.torch_stream),
        is_grad_enabled=lambda: made.grad,
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda device: made.cupy_stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(interop.UsedLibraries, "streams", {})
    for cached in (interop._torch_stream, interop._cupy_stream):
        monkeypatch.setattr(interop, cached.__name__, functools.cache(cached.__wrapped__))
    return made
