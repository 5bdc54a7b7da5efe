"""Arrays of other libraries by their own interfaces: what is in their memory, and the stream they are worked on.

No library is imported: one whose arrays come in has been.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import ClassVar, Final, TypeGuard, cast

import numpy as np

from tessera.core.base.dtypes import bf16, fp8_e4m3, fp8_e5m2
from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray
from tessera.runtime.arrays.protocols import CudaArrayInterface, CupyArray, CupyStream, JaxArray, TorchTensor

Stream = Callable[[], int]
"""The address of the CUDA stream that a library's work goes to now."""

_LEGACY: Final = 1  # the default stream, as `__cuda_array_interface__` and CU_STREAM_LEGACY have it
_REMEMBERED: Final = 64
_MATRIX: Final = 2
_TORCH_DTYPES: Final = {
    f"torch.{dtype.name}": dtype for dtype in (
        *map(np.dtype, ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8", "c16")),
        bf16.numpy, fp8_e4m3.numpy, fp8_e5m2.numpy,
    )
}  # fmt: skip


def library_of(value: object) -> str:
    """Return the name of the library that an array belongs to: "torch", "cupy", "numpy", ..."""
    root = type(value).__module__.partition(".")[0]
    return "jax" if root == "jaxlib" else root


# -- torch ---------------------------------------------------------------------------------------------------------


def torch_types() -> tuple[type, ...]:
    """Return the tensor types whose methods are torch's own; those of a subclass may do anything."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.Tensor, torch.nn.Parameter)


def is_torch(value: object) -> TypeGuard[TorchTensor]:
    """Return whether `value` is a torch tensor with torch's own methods, see `torch_types`."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "torch" and kind in torch_types()


def is_tensor(value: object) -> TypeGuard[TorchTensor]:
    """Return whether `value` is a torch tensor of any class."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def torch_dtype(value: TorchTensor) -> "np.dtype[np.generic] | None":
    """Return NumPy's dtype for that of a tensor; None where there is none."""
    return _TORCH_DTYPES.get(str(value.dtype))


def readable_tensor(value: TorchTensor, name: str, span: Span = NOWHERE) -> TorchTensor:
    """Detach a torch tensor from the computation of gradients, over the same memory.

    Raises NotAnArray for a tensor whose elements are not the numbers that lie in its memory.
    """
    for lazy, what in (("neg", "negated"), ("conj", "conjugated")):
        if getattr(value, f"is_{lazy}")():
            message = f"{name} is a view of numbers that are {what} only when PyTorch reads them"
            raise NotAnArray(message, span, hint=f"pass {name}.resolve_{lazy}()")
    if str(value.layout) != "torch.strided":
        kind = str(value.layout).removeprefix("torch.")
        raise NotAnArray(f"{name} is a {kind} tensor", span, hint=f"pass {name}.to_dense()")
    return value.detach()


def contiguous_transpose(value: object) -> object | None:
    """Return the transpose of a matrix of NumPy or torch whose columns are contiguous; None for other arrays."""
    if isinstance(value, np.ndarray):
        matrix = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value)
        turned = matrix.ndim == _MATRIX and matrix.flags.f_contiguous and not matrix.flags.c_contiguous
        return matrix.T if turned else None
    if not is_torch(value) or len(value.shape) != _MATRIX or min(value.shape) < _MATRIX:
        return None
    return value.t() if value.stride() == (1, value.shape[0]) else None


def writes_unseen(value: TorchTensor) -> bool:
    """Return whether a kernel that wrote a torch tensor now would make gradients wrong."""
    torch = sys.modules["torch"]
    return bool(value.requires_grad and torch.is_grad_enabled())


def require_writable(value: object, name: str, span: Span = NOWHERE) -> None:
    """Raise ReadOnlyArray for an array that a kernel must not write, though it could.

    PyTorch's own operations refuse to write a leaf that requires a gradient, and note what they write elsewhere; it
    does not see what a kernel writes.
    """
    if is_tensor(value) and writes_unseen(value):
        message = f"{name} is written by the kernel and requires a gradient, which PyTorch cannot compute of a kernel"
        hint = f"call the kernel inside `with torch.no_grad():`, or pass {name}.detach()"
        raise ReadOnlyArray(message, span, hint=hint)


# -- cupy and jax --------------------------------------------------------------------------------------------------


def is_cupy(value: object) -> TypeGuard[CupyArray]:
    """Return whether `value` is a cupy array."""
    return library_of(value) == "cupy"


def is_jax(value: object) -> TypeGuard[JaxArray]:
    """Return whether `value` is a jax array, which never changes."""
    return library_of(value) == "jax"


# -- memory --------------------------------------------------------------------------------------------------------


def release_cached_blocks() -> None:
    """Let the allocators of PyTorch and CuPy give back the blocks of GPU memory that no array of theirs is in."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()


# -- streams -------------------------------------------------------------------------------------------------------


def default_stream() -> int:
    """Return the default stream: that of arrays whose library has no current stream, and of our own."""
    return 0


def stream_of(value: object, device: int) -> Stream:
    """Return the stream, by its library's rules, of work on an array in a GPU's memory: one function a stream."""
    if is_tensor(value):
        return _torch_stream(device)
    if library_of(value) == "cupy" and hasattr(value, "data"):
        return _cupy_stream(device)
    facts: CudaArrayInterface | None = getattr(value, "__cuda_array_interface__", None)
    told = facts.get("stream") if facts else None  # our own arrays, numba and others say it of each array
    return default_stream if told in (None, 0, _LEGACY) else _told_stream(int(told))


def waits_for_the_end(value: object) -> bool:
    """Return whether a launch must be waited for: JAX cannot be told that memory is in use, and has its own stream.

    A launch on such an array returns when it is complete.
    """
    return library_of(value) == "jax"


class UsedLibraries:
    """Streams that are not the default one and have had launches because they were current.

    streams: by device and address, with what keeps them alive; torch's live as long as the process
    """

    streams: ClassVar[dict[int, dict[int, object]]] = {}


@cache
def _torch_stream(device: int) -> Stream:
    current: Callable[[int], int] = sys.modules["torch"]._C._cuda_getCurrentRawStream  # as inductor and Triton do
    used = UsedLibraries.streams.setdefault(device, {})

    def stream() -> int:
        found = current(device)
        if found and found not in used:
            used[found] = None
        return found

    return stream


@cache
def _cupy_stream(device: int) -> Stream:
    current: Callable[[int], CupyStream] = sys.modules["cupy"].cuda.get_current_stream
    used = UsedLibraries.streams.setdefault(device, {})

    def stream() -> int:
        found = current(device)
        address = found.ptr
        if address and used.get(address) is not found:
            if len(used) > _REMEMBERED:
                del used[next(iter(used))]
            used[address] = found
        return address

    return stream


@cache
def _told_stream(address: int) -> Stream:
    return lambda: address
