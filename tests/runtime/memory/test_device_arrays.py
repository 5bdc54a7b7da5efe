import ctypes

import ml_dtypes
import numpy as np
import pytest

from support.fake_cuda import FakeDriver, install
from tessera.core.errors.catalog import NotAnArray, WrongDevice
from tessera.runtime.memory.device_arrays import device_of, device_view, is_on_device, standing_for
from tessera.runtime.memory.owned import DeviceArray

FAR = 0x7_0000_0000_0000
"""An address that no process has: nothing may read there."""


class FromInterface:
    def __init__(self, typestr: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
        self.__cuda_array_interface__ = {
            "data": (FAR, False),
            "typestr": typestr,
            "shape": shape,
            "strides": strides,
            "version": 3,
        }


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class FromDlpack:
    """A tensor on a GPU, as torch hands it out."""

    def __init__(
        self,
        code: int,
        bits: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        device: int = 2,
        offset: int = 0,
    ):
        self.device = device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        steps = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64)) if self.strides else None
        shape_at = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        self.tensor = _Tensor(FAR, device, 0, len(shape), code, bits, 1, shape_at, steps, offset)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_a_view_has_everything_but_the_bytes():
    view = standing_for(FAR, (3, 4), np.dtype(np.float32), None)
    assert (view.ctypes.data, view.shape, view.strides, view.dtype) == (FAR, (3, 4), (16, 4), np.float32)
    assert view.flags.c_contiguous
    assert view.nbytes == 48
    assert repr(view) == str(view) == f"<float32[3, 4] in a GPU's memory at {FAR:#x}>"
    with pytest.raises(TypeError):
        view + 1  # pyright: ignore[reportUnusedExpression, reportOperatorIssue] - the mistake


@pytest.mark.parametrize("strides", [(32, 8), (4, 12), (-16, 4), (0, 4)])
def test_strides_of_every_kind(strides: tuple[int, int]):
    view = standing_for(FAR, (3, 4), np.dtype(np.float32), strides)
    assert (view.ctypes.data, view.strides) == (FAR, strides)
    assert not view.flags.c_contiguous


def test_an_array_without_elements():
    assert standing_for(0, (0, 4), np.dtype(np.float32), None).shape == (0, 4)


def test_the_cuda_array_interface():
    view = device_view(FromInterface("<f2", (5, 2)), "x")
    assert (view.ctypes.data, view.shape, view.dtype) == (FAR, (5, 2), np.float16)


@pytest.mark.parametrize(
    ("code", "bits", "dtype"),
    [
        (2, 32, np.float32),
        (0, 64, np.int64),
        (1, 8, np.uint8),
        (4, 16, ml_dtypes.bfloat16),
        (6, 8, np.bool_),
        (10, 8, ml_dtypes.float8_e4m3fn),
        (12, 8, ml_dtypes.float8_e5m2),
    ],
)
def test_dlpack(code: int, bits: int, dtype: type[np.generic]):
    view = device_view(FromDlpack(code, bits, (4, 6), None), "x")
    assert (view.ctypes.data, view.shape, view.dtype) == (FAR, (4, 6), np.dtype(dtype))


def test_dlpack_with_strides_and_an_offset():
    view = device_view(FromDlpack(2, 32, (4, 3), (6, 2), offset=64), "x")
    assert (view.ctypes.data, view.strides) == (FAR + 64, (24, 8))


def test_what_is_not_on_a_gpu():
    assert not is_on_device(np.zeros(3))
    assert not is_on_device(3.0)
    with pytest.raises(WrongDevice, match="x is not in the memory of a GPU"):
        device_view(FromDlpack(2, 32, (3,), None, device=1), "x")


def test_elements_no_kernel_can_have():
    with pytest.raises(NotAnArray, match="x holds elements"):
        device_view(FromDlpack(5, 64, (3,), None), "x")


def test_the_device_of_a_call_is_that_of_its_first_array_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeDriver(2))
    x = np.zeros(4, np.float32)
    assert device_of((x, 1.0, "text")) is None
    assert device_of((x, fake.device_array(x, device=1), 1.0, fake.device_array(x))) == 1


def test_arrays_without_elements_say_where_they_are(monkeypatch: pytest.MonkeyPatch):
    fake, nothing = install(monkeypatch, FakeDriver(2)), np.zeros(0, np.float32)
    plain, own = fake.device_array(nothing), DeviceArray((0, 3), np.dtype(np.float32), 1)
    assert is_on_device(plain)
    assert device_of((nothing, plain)) == 0  # `__cuda_array_interface__` does not say more
    assert device_of((own, plain)) == 1
    assert device_of((own, fake.device_array(np.ones(3, np.float32)))) == 0

    class Second(FromDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    assert device_of((Second(2, 32, (0,), None),)) == 1
