"""The types of arrays that other libraries hand over: what DLPack, `__cuda_array_interface__`, PyTorch and CuPy offer.

They are for type checkers alone: at run time an array is recognized by its library or its attributes, see `interop`.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NotRequired, Protocol, TypedDict

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


class SupportsDLPack(Protocol):
    """Exports its memory by DLPack."""

    def __dlpack__(self, *, stream: int | None = None) -> "CapsuleType":
        """Return a capsule that holds a `DLManagedTensor`."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device type (DLDeviceType) and the device's number."""
        ...


class CudaArrayInterface(TypedDict):
    """The description of an array in a GPU's memory.

    data: address, and whether it is read only; strides: in bytes, None for C order
    stream: the CUDA stream that the memory is worked on in, 1 for the default one
    """

    data: tuple[int, bool]
    shape: tuple[int, ...]
    typestr: str
    version: int
    strides: NotRequired[tuple[int, ...] | None]
    stream: NotRequired[int | None]


class SupportsCudaArrayInterface(Protocol):
    """Describes its memory on a GPU, as numba's and our own arrays do."""

    @property
    def __cuda_array_interface__(self) -> CudaArrayInterface:
        """The description."""
        ...


class SupportsShape(Protocol):
    """An array or tensor of any library."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        ...


class SupportsView(Protocol):
    """An array whose bytes can be seen as elements of another type."""

    def view(self, dtype: object, /) -> "SupportsReshape":
        """Return the same bytes as elements of a dtype of the array's library."""
        ...


class SupportsReshape(SupportsShape, Protocol):
    """An array that can be given another shape, and of which parts can be taken."""

    @property
    def T(self) -> object:  # noqa: N802 - the name that all libraries give it
        """The array with its axes in the opposite order."""
        ...

    def reshape(self, shape: tuple[int, ...], /) -> "SupportsReshape":
        """Return the same elements with another shape."""
        ...

    def __getitem__(self, key: tuple[int | slice, ...], /) -> "SupportsReshape":
        """Return a part."""
        ...


class TorchTensor(SupportsDLPack, Protocol):
    """The part of `torch.Tensor` that launches use."""

    shape: tuple[int, ...]
    dtype: object
    layout: object
    is_cuda: bool
    requires_grad: bool
    device: object

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        ...

    def t(self) -> "TorchTensor":
        """Return the transpose of a matrix, over the same memory."""
        ...

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        ...

    def get_device(self) -> int:
        """Return the number of its GPU."""
        ...

    def new_empty(self, shape: tuple[int, ...], /) -> "TorchTensor":
        """Return a tensor of this dtype on this device, whose elements are undefined."""
        ...

    def contiguous(self) -> "TorchTensor":
        """Return itself where it is in C order without gaps, else a copy that is."""
        ...

    def is_contiguous(self) -> bool:
        """Return whether it is in C order without gaps."""
        ...

    def is_neg(self) -> bool:
        """Return whether it is negated only when PyTorch reads it."""
        ...

    def is_conj(self) -> bool:
        """Return whether it is conjugated only when PyTorch reads it."""
        ...

    def detach(self) -> "TorchTensor":
        """Return the same memory, outside the computation of gradients."""
        ...

    def view(self, dtype: object, /) -> "TorchTensor":
        """Return the same memory with another dtype."""
        ...


class CupyMemory(Protocol):
    """The part of `cupy.cuda.MemoryPointer` that launches use."""

    ptr: int
    device_id: int


class CupyArray(Protocol):
    """The part of `cupy.ndarray` that launches use; `strides` are in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: "np.dtype[np.generic]"
    data: CupyMemory
    device: AbstractContextManager[object]


class CupyStream(Protocol):
    """The part of `cupy.cuda.Stream` that launches use."""

    ptr: int


class JaxArray(Protocol):
    """The part of `jax.Array` that launches use."""

    @property
    def device(self) -> object:
        """The device, or the sharding over several."""
        ...

    def is_deleted(self) -> bool:
        """Return whether its memory was given away."""
        ...

    def block_until_ready(self) -> object:
        """Wait until it is computed."""
        ...
