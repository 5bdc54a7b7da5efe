"""Arrays in a GPU's memory, as NumPy arrays that stand for them (`DeviceView`).

Everything that checks arguments (`Binder`) looks at address, shape, strides and dtype, so it serves device arrays
unchanged.  They stay inside the runtime.
"""

import ctypes
from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray, WrongDevice
from tessera.runtime.arrays.dlpack import BEYOND_NUMPY, DLTensor, as_bytes
from tessera.runtime.arrays.host import AnyArray, DeviceView, has_dlpack, is_array
from tessera.runtime.arrays.interop import (
    is_cupy,
    is_jax,
    is_tensor,
    is_torch,
    readable_tensor,
    require_writable,
    torch_dtype,
)
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import SupportsCudaArrayInterface, SupportsDLPack, TorchTensor
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.owned import DeviceArray

_CUDA: Final = 2
_MANAGED: Final = 13
_KINDS: Final = {0: "i", 1: "u", 2: "f", 6: "b"}


def is_on_device(value: object) -> bool:
    """Return whether `value` is an array in a GPU's memory."""
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, DeviceArray):
        return True
    if is_torch(value):
        return bool(value.is_cuda)
    if hasattr(value, "__dlpack_device__"):
        return int(cast("SupportsDLPack", value).__dlpack_device__()[0]) in (_CUDA, _MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def device_of(values: Sequence[object]) -> int | None:
    """Return the number of the GPU that holds the first of the arrays on GPUs; None where there is none.

    Arrays without elements have no address that says it: their library's word counts where no other array has one.
    """
    said: int | None = None
    for value in values:
        if is_array(value) and is_on_device(value):
            view = device_view(value, "argument")
            if view.size:
                return device_of_array(value, view)
            said = (_device_by_name(value) or 0) if said is None else said
    return said


def device_of_array(value: object, view: DeviceView) -> int:
    """Return the number of the GPU that holds an array with elements, which `view` stands for.

    Its library's word counts, where it has one: the driver names the GPU that asks for memory that several may read.
    """
    named = _device_by_name(value)
    return door.driver().device_of(address(view)) if named is None else named


def _device_by_name(value: object) -> int | None:
    """Return the number of the GPU that an array says it is on; None for one that says nothing, or lies on several."""
    if isinstance(value, DeviceArray):
        return value.device  # of a peer's memory: the GPU that it is seen from
    if is_torch(value):
        return value.get_device()
    if has_dlpack(value):
        kind, number = value.__dlpack_device__()
        return int(number) if int(kind) == _CUDA else None
    return None


def device_view(value: object, name: str, span: Span = NOWHERE, *, mutable: bool = False) -> DeviceView:
    """Return the array that stands for `value`, the argument for parameter `name` written at `span`.

    Raises NotAnArray for a dtype that neither NumPy nor ml_dtypes has, WrongDevice for memory that is not a GPU's,
    and, for a `mutable` parameter, ReadOnlyArray.
    """
    if isinstance(value, DeviceArray):
        return standing_for(value.address, value.shape, value.dtype, None)
    if not is_on_device(value):
        message = f"{name} is not in the memory of a GPU"
        raise WrongDevice(message, span, hint=f"pass cupy.asarray({name})")
    found = _view(value, name, span)
    if found.size and not address(found):
        raise NotAnArray(f"{name}, of type {type(value).__name__}, has no memory", span)
    if mutable:
        require_writable(value, name, span)
        if not found.flags.writeable:
            message = f"{name} is written by the kernel, but the array given is read only"
            raise ReadOnlyArray(message, span, hint="pass a writeable array, e.g. a copy")
    return found


def _view(value: object, name: str, span: Span) -> DeviceView:
    if is_torch(value):
        return _from_torch(value, name, span)
    if is_tensor(value):
        value = readable_tensor(value, name, span)
    if is_cupy(value) and hasattr(value, "data"):  # by DLPack, it would order streams
        return standing_for(int(value.data.ptr), tuple(value.shape), value.dtype, tuple(value.strides))
    if is_jax(value):
        value.block_until_ready()
    if has_dlpack(value):
        return _from_dlpack(value, name, span)
    facts = cast("SupportsCudaArrayInterface", value).__cuda_array_interface__
    start, frozen = facts["data"]
    found = standing_for(int(start), tuple(facts["shape"]), np.dtype(facts["typestr"]), facts.get("strides"))
    if frozen:
        found.flags.writeable = False
    return found


def _from_torch(value: TorchTensor, name: str, span: Span) -> DeviceView:
    """Read the tensor's own attributes: DLPack would refuse what requires gradients, and order streams."""
    dtype = torch_dtype(value)
    if dtype is None:
        raise NotAnArray(f"{name} holds {value.dtype}, a type that kernels cannot have", span)
    tensor = readable_tensor(value, name, span)
    steps = tuple(step * dtype.itemsize for step in tensor.stride())
    return standing_for(tensor.data_ptr(), tuple(tensor.shape), dtype, steps)


class _Header:
    """An `__array_interface__`, of which NumPy makes an array without looking at its memory."""

    __slots__ = ("__array_interface__",)


def standing_for(
    address: int, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", strides: tuple[int, ...] | None
) -> DeviceView:
    """Make a NumPy array at a device's address, never to be read from; `strides` in bytes, None for C order."""
    if 0 in shape:
        return np.empty(shape, dtype).view(DeviceView)
    header = _Header()
    header.__array_interface__ = {
        "data": (address, False), "shape": shape, "strides": strides, "version": 3,
        "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",  # NumPy cannot read all of ml_dtypes'
    }  # fmt: skip
    array: AnyArray = np.asarray(header)
    return (array if array.dtype is dtype else array.view(dtype)).view(DeviceView)


def _from_dlpack(value: SupportsDLPack, name: str, span: Span) -> DeviceView:
    """Read a tensor's description from its capsule, which is not consumed: the tensor stays its owner's.

    No stream is named, so the producer makes the data ready for the default stream, where launches go by default.
    """
    found = as_bytes(value)
    if found is not None:
        return cast("DeviceView", _from_dlpack(found[0], name, span).view(found[1]))
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        message = f"{name}, of type {type(value).__name__}, cannot be viewed: {error}"
        raise NotAnArray(message, span, hint="pass an array of PyTorch, CuPy or JAX") from None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    dtype = _dtype(tensor.code, tensor.bits)
    if dtype is None or tensor.lanes != 1:
        message = f"{name} holds elements of a type that kernels cannot have"
        raise NotAnArray(message, span)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    steps = tuple(tensor.strides[axis] * dtype.itemsize for axis in range(tensor.ndim)) if tensor.strides else None
    return standing_for((tensor.data or 0) + tensor.byte_offset, shape, dtype, steps)


def _dtype(code: int, bits: int) -> "np.dtype[np.generic] | None":
    if (code, bits) in BEYOND_NUMPY:
        return BEYOND_NUMPY[code, bits]
    kind = _KINDS.get(code)
    if kind is None or bits % 8:
        return None
    return np.dtype(np.bool_) if kind == "b" else np.dtype(f"{kind}{bits // 8}")
