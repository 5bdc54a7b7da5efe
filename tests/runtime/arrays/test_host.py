"""Views of whatever holds numbers: no copies, clear refusals."""

import array
import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.source import Span
from tessera.core.errors.catalog import NotAnArray, ReadOnlyArray, WrongDevice
from tessera.runtime.arrays.host import as_array, is_array, overlaps_itself, rows_aligned

SPAN = Span("cell.py", 1, 2, 1, 3)


class Exporter:
    """An array of another library: only DLPack."""

    def __init__(self, values: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.values = values
        self.device = device

    def __dlpack__(self, **options: Any) -> object:  # whatever the reader asks for
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class Interface:
    """An array of another library: only `__array_interface__`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class Copying:
    """Something that can only be copied."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.arange(3.0)


class OnGpu:
    __cuda_array_interface__: ClassVar = {"shape": (3,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}


DLPACK_CODES = {ml_dtypes.bfloat16: 4, ml_dtypes.float8_e4m3fn: 10, ml_dtypes.float8_e5m2: 12}


class ShortFloatTensor:
    """A tensor of what only ml_dtypes has, as torch exports it; NumPy's own reader refuses it."""

    def __init__(self, values: np.ndarray, strides: tuple[int, ...] | None = None, offset: int = 0) -> None:
        self.values = values
        self.strides = strides
        self.offset = offset

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        if options:
            raise BufferError("NumPy asks with options; it would refuse the dtype anyway")
        rank = self.values.ndim

        class Managed(ctypes.Structure):
            _fields_ = (
                ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
            )  # fmt: skip

        self.shape = (ctypes.c_int64 * rank)(*self.values.shape)
        self.steps = (ctypes.c_int64 * rank)(*self.strides) if self.strides else None
        self.managed = Managed(
            self.values.ctypes.data, 1, 0, rank, DLPACK_CODES[self.values.dtype.type], 8 * self.values.itemsize, 1,
            self.shape, self.steps, self.offset, None, None,
        )  # fmt: skip
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def test_numpy_passes_through():
    x = np.zeros(3, np.float32)
    assert as_array(x, "x", mutable=True) is x


@pytest.mark.parametrize("wrap", [Exporter, Interface, memoryview])
def test_views_write_through(wrap: Callable[[np.ndarray], object]):
    x = np.zeros((2, 3), np.float32)
    view = as_array(wrap(x), "x", mutable=True)
    view[1, 2] = 7.0
    assert x[1, 2] == 7.0
    assert view.shape == (2, 3)


def test_buffers_write_through():
    values = array.array("f", [1.0, 2.0])
    as_array(values, "x", mutable=True)[0] = 5.0
    assert values[0] == 5.0
    raw = bytearray(4)
    as_array(raw, "x", mutable=True)[1] = 9
    assert raw[1] == 9
    counts = (ctypes.c_int32 * 2)(1, 2)
    as_array(counts, "x", mutable=True)[1] = 3
    assert counts[1] == 3


def test_strides_survive():
    x = np.arange(12.0).reshape(3, 4)
    view = as_array(Exporter(x[:, ::2]), "x")
    assert view.strides == (32, 16)
    np.testing.assert_array_equal(view, x[:, ::2])


@pytest.mark.parametrize("kind", DLPACK_CODES)
def test_short_floats_through_dlpack(kind: type[np.generic]):
    x = np.arange(12).astype(kind).reshape(3, 4)
    view = as_array(ShortFloatTensor(x), "x", mutable=True)
    assert view.dtype == kind
    view[2, 3] = 40.0
    assert float(x[2, 3]) == 40.0
    every_second = as_array(ShortFloatTensor(x[:, ::2], strides=(4, 2)), "x")
    np.testing.assert_array_equal(every_second, x[:, ::2])
    shifted = as_array(ShortFloatTensor(x[:2], offset=4 * x.itemsize), "x")
    np.testing.assert_array_equal(shifted, x[1:])


def test_bfloat16_view_keeps_its_capsule():
    x = np.ones(4, ml_dtypes.bfloat16)
    view = as_array(ShortFloatTensor(x), "x")
    gc.collect()
    assert float(view[3]) == 1.0


def test_a_dlpack_type_nobody_has():
    with pytest.raises(NotAnArray, match="x cannot be viewed"):
        as_array(Exporter(np.zeros(2, "M8[s]")), "x", span=SPAN)


def test_read_only_is_refused_for_outputs_only():
    x = np.zeros(3)
    x.flags.writeable = False
    assert as_array(x, "x") is x
    with pytest.raises(ReadOnlyArray, match="x is written by the kernel") as caught:
        as_array(x, "x", mutable=True, span=SPAN)
    assert caught.value.span == SPAN
    with pytest.raises(ReadOnlyArray):
        as_array(b"abc", "x", mutable=True)


def test_copies_are_refused_for_outputs():
    np.testing.assert_array_equal(as_array(Copying(), "x"), np.arange(3.0))
    with pytest.raises(NotAnArray, match="a Copying gives no view of its memory"):
        as_array(Copying(), "x", mutable=True)


@pytest.mark.parametrize(
    ("value", "where"),
    [(OnGpu(), "cuda"), (Exporter(np.zeros(2), (2, 3)), "cuda:3"), (Exporter(np.zeros(2), (8, 0)), "metal:0")],
)
def test_other_devices_are_refused(value: object, where: str):
    with pytest.raises(WrongDevice, match=f"x lies in the memory of {where}"):
        as_array(value, "x")


@pytest.mark.parametrize(
    ("value", "message"),
    [([1.0], "x needs an array, got a list"), (3, "got 3"), (None, "got None"), ("ab", "got a str")],
)
def test_no_array(value: object, message: str):
    with pytest.raises(NotAnArray, match=message):
        as_array(value, "x")


def test_subclasses_are_seen_as_their_memory(tmp_path: Path):
    memory = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(3, 4))
    view = as_array(memory, "x", mutable=True)
    assert type(view) is np.ndarray
    assert np.shares_memory(view, memory)
    plain = np.zeros(3)
    assert as_array(plain, "x") is plain


def test_a_list_is_told_how():
    with pytest.raises(NotAnArray) as caught:
        as_array((1, 2), "x")
    assert caught.value.hint == "pass np.asarray(x)"


def test_odd_memory_is_refused():
    with pytest.raises(NotAnArray, match="other byte order"):
        as_array(np.zeros(2, ">f4"), "x")
    with pytest.raises(NotAnArray, match="not aligned"):
        as_array(np.zeros(9, np.uint8)[1:].view(np.float64), "x")


@pytest.mark.parametrize(
    ("value", "answer"),
    [(np.zeros(2), True), (bytearray(2), True), (OnGpu(), True), (Copying(), True), (np.float32(1), False),
     (np.zeros(()), False), (1, False), (True, False), ("text", False), (None, False), ([1], False)],
)  # fmt: skip
def test_is_array(value: object, answer: bool):
    assert is_array(value) is answer


def test_rows_that_bulk_copies_can_read():
    whole = np.zeros((8, 64), np.float32)
    assert rows_aligned(whole)
    assert not rows_aligned(whole[:, :63])
    assert not rows_aligned(whole[:, 1:])
    assert not rows_aligned(whole.T)
    assert not rows_aligned(whole[::-1])


def test_of_an_array_without_elements_the_length_of_its_rows_decides():
    assert rows_aligned(np.zeros((8, 0), np.float32))
    assert rows_aligned(np.zeros((0, 4), np.float32))
    assert rows_aligned(np.zeros((8, 64), np.float32)[:0, 1:5])
    assert not rows_aligned(np.zeros((0, 5), np.float32))


@pytest.mark.parametrize("mutable", [True, False])
def test_masks_are_not_ignored(mutable: bool):
    masked = np.ma.array(np.arange(4.0), mask=[False, True, False, False])
    with pytest.raises(NotAnArray, match="x is a masked array, and a kernel sees no mask") as caught:
        as_array(masked, "x", mutable=mutable)
    assert "x.data" in caught.value.hint
    assert np.shares_memory(as_array(masked.data, "x", mutable=mutable), masked.data)
    assert as_array(masked.filled(0), "x").tolist() == [0, 0, 2, 3]


def test_an_interface_without_memory():
    exporter = Interface(np.zeros(4))
    exporter.__array_interface__ = {**exporter.__array_interface__, "data": (0, False)}
    with pytest.raises(NotAnArray, match="x, of type Interface, cannot be viewed: data is NULL"):
        as_array(exporter, "x", span=SPAN)


def test_a_device_of_no_memory():
    """As torch's "meta" tensors answer."""

    class Nowhere(Exporter):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("Unknown device type meta for Dlpack")

    with pytest.raises(NotAnArray, match="x, of type Nowhere, cannot be viewed: Unknown device type meta"):
        as_array(Nowhere(np.zeros(4)), "x", span=SPAN)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-12, 12)), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8])
)
def test_whether_elements_of_an_array_share_bytes(axes: list[tuple[int, int]], itemsize: int):
    shape, strides = tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes)
    starts = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in np.ndindex(*shape)]
    taken = [start + byte for start in starts for byte in range(itemsize)]
    assert overlaps_itself(shape, strides, itemsize) == (len(set(taken)) < len(taken))


def test_large_arrays_that_overlap():
    n = 1 << 20
    assert overlaps_itself((4, n), (0, 4), 4)
    assert not overlaps_itself((4, n), (4 * n, 4), 4)
    assert not overlaps_itself((n, 4), (4, 4 * n), 4)
    assert not overlaps_itself((n, n), (8, 12), 4)  # it would take too long to say
