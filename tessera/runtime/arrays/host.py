"""NumPy views, without a copy, of arrays of any library in host memory.

NumPy arrays pass through; DLPack, `__array_interface__` and the buffer protocol are viewed without copying, so what a
kernel writes is in the caller's own memory.
"""

import ctypes
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray, WrongDevice
from tessera.runtime.arrays.dlpack import BEYOND_NUMPY, DLTensor, as_bytes
from tessera.runtime.arrays.interop import is_tensor, readable_tensor, require_writable
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import SupportsDLPack

if TYPE_CHECKING:
    from typing_extensions import Buffer

AnyArray: TypeAlias = NDArray[Any]  # the element type of an argument is known only when it comes

_HOST_DEVICES: Final = (1, 3)  # kDLCPU and kDLCUDAHost (pinned memory)
_MOST_PLACES: Final = 1 << 20
_LONGEST: Final = (1 << 31) - 1  # the most that a GPU's bulk copies count along one axis
_DEVICE_NAMES: Final = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "managed cuda", 14: "oneapi"}


class DeviceView(np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """A stand-in for an array in a GPU's memory: address, shape, strides and dtype, never the bytes.

    It has a class of its own so that no launch on the host takes it for memory of the host, nor one on a GPU what is
    not there, and so that arithmetic on it is an error instead of a segmentation fault.
    """

    __array_ufunc__ = None  # pyright: ignore[reportAssignmentType] - NumPy's way to say that there is no arithmetic

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} in a GPU's memory at {address(self):#x}>"

    __str__ = __repr__


def is_array(value: object) -> bool:
    """Return whether `value` is something that `as_array` can view (or refuse because of its device), not a number."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0  # pyright: ignore[reportUnknownMemberType] - an array of any dtype
    if isinstance(value, bool | int | float | complex | str | np.generic | type):  # classes have the names of methods
        return False
    return any(
        hasattr(value, name)
        for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__", "__array__", "__buffer__")
    ) or _has_buffer(value)


def plain(value: object) -> object:
    """Return Python's number for a number of NumPy, everything else as it is."""
    return cast("object", value.item()) if isinstance(value, np.generic) else value


def as_array(value: object, name: str, *, mutable: bool = False, span: Span = NOWHERE) -> AnyArray:
    """Return a NumPy view of `value`, the argument for parameter `name` that stands at `span`.

    Raises NotAnArray, WrongDevice, and, for a `mutable` parameter, ReadOnlyArray when writes would not reach the
    caller's memory.
    """
    # A memmap or another subclass is the same memory; the runtime knows NumPy's own class alone.
    if isinstance(value, DeviceView):
        raise _elsewhere(name, "a GPU", span)
    if isinstance(value, np.ma.MaskedArray):
        message = f"{name} is a masked array, and a kernel sees no mask"
        hint = f"pass {name}.data for all of its elements; to read it, also {name}.filled(value)"
        raise NotAnArray(message, span, hint=hint)
    base = isinstance(value, np.ndarray)
    array: AnyArray = np.asarray(cast("AnyArray", value)) if base else _view(value, name, mutable, span)
    if not array.dtype.isnative:
        raise NotAnArray(
            f"{name} holds numbers in the other byte order ({array.dtype})", span,
            hint=f"convert it: {name}.astype({name}.dtype.newbyteorder('='))",
        )  # fmt: skip
    if not array.flags.aligned:
        raise NotAnArray(f"the elements of {name} are not aligned in memory", span, hint=f"pass {name}.copy()")
    if mutable and not array.flags.writeable:
        raise ReadOnlyArray(f"{name} is written by the kernel, but the array given is read only", span,
                            hint="pass a writeable array, e.g. a copy")  # fmt: skip
    return array


def _view(value: object, name: str, mutable: bool, span: Span) -> AnyArray:
    if is_tensor(value):
        if mutable:
            require_writable(value, name, span)
        value = readable_tensor(value, name, span)
    if has_dlpack(value):
        return _from_dlpack(value, name, span)
    if hasattr(value, "__cuda_array_interface__"):
        raise _elsewhere(name, "cuda", span)
    try:
        return _from_host(value, name, mutable, span)
    except (ValueError, TypeError, BufferError) as error:  # what NumPy says against another library's description
        message = f"{name}, of type {type(value).__name__}, cannot be viewed: {error}"
        raise NotAnArray(message, span, hint="pass a NumPy array") from None


def has_dlpack(value: object) -> TypeGuard[SupportsDLPack]:
    """Return whether `value` exports its memory by DLPack."""
    return hasattr(value, "__dlpack__")


def _from_host(value: object, name: str, mutable: bool, span: Span) -> AnyArray:
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if _has_buffer(value):
        return np.asarray(memoryview(value))  # of bytes themselves NumPy would make a string
    if hasattr(value, "__array__"):
        if mutable:  # `__array__` may copy, and what the kernel wrote would be lost
            raise NotAnArray(f"{name} is written, and a {type(value).__name__} gives no view of its memory", span,
                             hint="pass a NumPy array")  # fmt: skip
        return np.asarray(value)
    raise NotAnArray(
        f"{name} needs an array, got {_describe(value)}", span,
        hint=f"pass np.asarray({name})" if isinstance(value, list | tuple | range) else "pass a NumPy array",
    )  # fmt: skip


def _describe(value: object) -> str:
    kind = type(value).__name__
    return f"{value!r}" if isinstance(value, bool | int | float | np.generic) or value is None else f"a {kind}"


def _has_buffer(value: object) -> "TypeGuard[Buffer]":
    if isinstance(value, str):
        return False
    try:
        memoryview(value)  # pyright: ignore[reportArgumentType] - that is the question
    except (TypeError, BufferError):
        return False
    return True


def _elsewhere(name: str, device: str, span: Span) -> WrongDevice:
    message = f"{name} lies in the memory of {device}, and this kernel runs on the CPU"
    return WrongDevice(message, span, hint='copy it to the host first, or run the kernel on the GPU: target="cuda"')


def _from_dlpack(value: SupportsDLPack, name: str, span: Span) -> AnyArray:
    try:
        kind, number = value.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # "meta" tensors, which have no memory
        message = f"{name}, of type {type(value).__name__}, cannot be viewed: {error}"
        raise NotAnArray(message, span, hint="pass an array that has memory") from None
    if int(kind) not in _HOST_DEVICES:
        raise _elsewhere(name, f"{_DEVICE_NAMES.get(int(kind), f'device type {int(kind)}')}:{number}", span)
    found = as_bytes(value)
    if found is not None:
        return np.from_dlpack(found[0]).view(found[1])
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError) as error:
        view = _short_view(value)  # NumPy's own reader knows no bfloat16
        if view is None:
            raise NotAnArray(f"{name} cannot be viewed: {error}", span, hint="pass a NumPy array") from None
        return view


def _short_view(value: SupportsDLPack) -> AnyArray | None:
    """View a tensor of bfloat16 or of floats of 8 bits through its DLPack capsule; None for any other type.

    The capsule is not consumed: the view keeps it, and its own destructor frees the tensor.
    """
    try:
        capsule = value.__dlpack__()
    except (BufferError, TypeError, RuntimeError):  # the caller tells why NumPy could not read it
        return None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    dtype = BEYOND_NUMPY.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        return None
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    contiguous = _row_major(shape)
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else contiguous
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if 0 in shape or any(stride < 0 for stride in strides):
        return np.empty(shape, dtype) if 0 in shape else None
    memory = (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(tensor.data + tensor.byte_offset)
    memory.owner = capsule  # pyright: ignore[reportAttributeAccessIssue] - keeps the tensor's memory alive
    return np.ndarray(shape, dtype, memory, 0, [dtype.itemsize * stride for stride in strides])  # pyright: ignore[reportArgumentType]


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@lru_cache(maxsize=256)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether two elements of an array with these strides (in bytes) share bytes.

    Where the answer would take too long, it is no: the user knows best.
    """
    axes = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent != 1)
    while axes and 0 not in shape:
        stride, _ = axes[-1]
        if stride < itemsize + sum(step * (extent - 1) for step, extent in axes[:-1]):
            break
        axes.pop()  # whatever is below this axis fits between two of its steps
    if not axes or 0 in shape:
        return False
    if axes[0][0] < itemsize or math.prod(extent for _, extent in axes) > _MOST_PLACES:
        return axes[0][0] < itemsize
    places = np.zeros(1, np.int64)
    for stride, extent in axes:
        places = np.add.outer(places, stride * np.arange(extent)).ravel()
    return bool((np.diff(np.sort(places)) < itemsize).any())


def rows_aligned(array: AnyArray) -> bool:
    """Return whether every row begins and ends at a multiple of 16 bytes, see `tessera.core.program.types.Array`.

    An array without elements has no place in memory: only the length of its rows counts.  Rows in the opposite order
    are not aligned, as the copy engine of GPUs cannot read them.
    """
    size, strides, shape = array.itemsize, array.strides, array.shape
    if not array.size:
        return bool(shape) and shape[-1] * size % 16 == 0 and max(shape) <= _LONGEST
    if not shape or strides[-1] != size or address(array) % 16 or shape[-1] * size % 16 or max(shape) > _LONGEST:
        return False
    return all(stride % 16 == 0 and stride >= 0 for stride in strides[:-1])
