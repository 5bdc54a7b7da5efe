"""The one structure of DLPack that we read ourselves, for what NumPy's own reader refuses."""

import ctypes
import sys
from typing import Final, TypeGuard

import numpy as np

from tessera.core.base.dtypes import bf16, fp8_e4m3, fp8_e5m2
from tessera.runtime.arrays.protocols import TorchTensor

BEYOND_NUMPY: Final = {(4, 16): bf16.numpy, (10, 8): fp8_e4m3.numpy, (12, 8): fp8_e5m2.numpy}
"""By code and bits (dlpack.h, DLDataTypeCode): the types that NumPy itself lacks."""
_BYTE_FLOATS: Final = {f"torch.{dtype.numpy.name}": dtype.numpy for dtype in (fp8_e4m3, fp8_e5m2)}


def as_bytes(value: object) -> "tuple[TorchTensor, np.dtype[np.generic]] | None":
    """View a PyTorch tensor of 8-bit floats as one of bytes, and return it with their dtype; None for anything else.

    PyTorch before 2.10 exports no such tensor by DLPack.
    """
    torch = sys.modules.get("torch")
    if torch is None or not _holds_byte_floats(value):
        return None
    return value.view(torch.uint8), _BYTE_FLOATS[str(value.dtype)]


def _holds_byte_floats(value: object) -> TypeGuard[TorchTensor]:
    """Return whether `value` is a PyTorch tensor of 8-bit floats."""
    return str(getattr(value, "dtype", "")) in _BYTE_FLOATS


class DLTensor(ctypes.Structure):
    """DLTensor, as dlpack.h lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )
