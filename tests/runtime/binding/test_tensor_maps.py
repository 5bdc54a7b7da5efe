"""Windows on arrays: what the driver is told, and which arrays are refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support import raw_kernels
from support.fake_cuda import FakeDriver
from tessera.core.artifact import Binding, Slot, TensorMap
from tessera.core.base.dtypes import DType, bf16, f32, fp8_e4m3, i16
from tessera.core.base.source import Span
from tessera.core.errors.catalog import UnfitForBulkCopy
from tessera.core.program.types import Array
from tessera.runtime.binding.tensor_maps import _PLACES, _WINDOWS, TensorMaps, describe
from tessera.runtime.driver.descriptors import Encoding
from tessera.runtime.memory.device_arrays import standing_for

SPAN = Span("k.py", 1, 1, 1, 2)


def binding(rank: int, dtype: DType = f32) -> Binding:
    return Binding("x", Array(dtype, tuple(f"n{axis}" for axis in range(rank)), contiguous=False), False, SPAN)


def at(
    address: int, shape: tuple[int, ...], dtype: type[np.generic] | np.dtype = np.float32,
    strides: tuple[int, ...] | None = None,
):  # fmt: skip
    return standing_for(address, shape, np.dtype(dtype), strides)


def test_axes_are_told_innermost_first_and_strides_in_bytes():
    array = at(4096, (5, 7, 96), bf16.numpy, (7 * 256, 256, 2))
    encoding = describe(binding(3, bf16), array, TensorMap((1, 4, 64), 128))
    assert (encoding.element, encoding.address) == ("BFLOAT16", 4096)
    assert encoding.extents == (96, 7, 5)
    assert encoding.strides == (256, 1792)
    assert (encoding.box, encoding.swizzle) == ((64, 4, 1), 128)


def test_other_elements_go_as_bits_of_their_width():
    assert describe(binding(1, i16), at(16, (64,), np.int16), TensorMap((64,))).element == "UINT16"
    assert describe(binding(1, fp8_e4m3), at(16, (64,), fp8_e4m3.numpy), TensorMap((64,))).element == "UINT8"


def test_the_copy_engine_rounds_where_asked():
    assert describe(binding(1), at(16, (64,)), TensorMap((32,), 128, rounded=True)).element == "TFLOAT32"
    assert describe(binding(1), at(16, (64,)), TensorMap((32,), 128)).element == "FLOAT32"


def test_an_axis_of_one_element_may_have_any_stride():
    encoding = describe(binding(2), at(16, (1, 64), strides=(4, 4)), TensorMap((1, 64)))
    assert encoding.strides == (16,)
    assert describe(binding(2), at(16, (4, 1), strides=(16, 999 * 4)), TensorMap((4, 4))).extents == (1, 4)


@pytest.mark.parametrize(
    ("array", "wanted", "words"),
    [
        (at(4100, (8, 64)), TensorMap((8, 64)), "its address 0x1004 is no multiple of 16"),
        (at(4096, (8, 64), strides=(264, 4)), TensorMap((8, 64)), "rows along axis 0 are 264 bytes apart"),
        (at(4096, (8, 64), strides=(-256, 4)), TensorMap((8, 64)), "rows along axis 0 are -256 bytes apart"),
        (at(4096, (8, 64), strides=(512, 8)), TensorMap((8, 64)), "its innermost axis has gaps"),
        (at(4096, (8, 64)), TensorMap((64,)), "an array of 2 axes does not go with a window of 1"),
        (at(4096, (8, 64)), TensorMap((8, 257)), "256 is the most along one axis"),
        (at(4096, (8, 64)), TensorMap((0, 64)), "256 is the most along one axis"),
        (at(4096, (8, 64)), TensorMap((8, 6)), "rows of 24 bytes"),
        (
            at(4096, (8, 64)),
            TensorMap((8, 64), 128),
            "rows of 256 bytes do not fit units of 16 bytes, swizzled inside 128",
        ),
        (at(4096, (0, 64)), TensorMap((8, 64)), "an axis of no, or of more than 2^32, elements"),
        (at(4096, ((1 << 32) + 1, 4)), TensorMap((8, 4)), "an axis of no, or of more than 2^32, elements"),
    ],
)
def test_what_the_hardware_cannot_read_is_said_of_the_parameter(array: np.ndarray, wanted: TensorMap, words: str):
    with pytest.raises(UnfitForBulkCopy, match="x: ") as caught:
        describe(binding(array.ndim), array, wanted)
    assert words in caught.value.message
    assert caught.value.span == SPAN
    assert "contiguous copy of x" in caught.value.hint


def described(fake: FakeDriver, wanted: TensorMap, *shape: int) -> Encoding:
    """The map that a launch has on an array, as the driver is told."""
    slot = Slot("tensor_map", 0, tensor_map=wanted)
    window, start = TensorMaps(raw_kernels.window(), fake).window(slot, np.empty(shape, np.float32))
    window.at(start)
    return fake.encoded[-1]


@pytest.mark.parametrize("shape", [(0, 64), (20, 0), (0, 0), (0, 1 << 33)])
@pytest.mark.parametrize("padded_rows", [False, True])
def test_a_zero_stands_in_for_an_array_without_elements(shape: tuple[int, int], padded_rows: bool):
    fake = FakeDriver()
    encoding = described(fake, TensorMap((16, 32), 128, padded_rows=padded_rows), *shape)
    assert (encoding.extents, encoding.strides, encoding.box) == ((1, 1), (16,), (32, 16))
    assert encoding.address % 16 == 0
    assert not fake.memory[encoding.address][:128].any()
    assert fake.waited == 1  # whatever stream the launch is on


def test_what_is_stored_in_place_of_nothing_is_loaded_by_nobody():
    fake = FakeDriver(2)
    loaded = TensorMap((16, 32), 128)
    first, second = (described(fake, replace(loaded, stored=stored), 20, 0).address for stored in (False, True))
    assert second - first == 128
    assert second + 128 <= first + fake.memory[first].nbytes
    assert described(fake, loaded, 0, 64).address == first  # once a context
    with fake.inside(1):
        there = described(fake, loaded, 0, 64).address
    assert fake.owners[there] == 1
    assert len(fake.memory) == 2


def test_a_window_that_fits_no_array_fits_none_without_elements():
    with pytest.raises(UnfitForBulkCopy, match="256 is the most along one axis"):
        described(FakeDriver(), TensorMap((8, 512)), 0, 64)


def test_launches_share_what_was_described_once():
    fake, slot = FakeDriver(), Slot("tensor_map", 0, tensor_map=TensorMap((16, 32)))
    maps = TensorMaps(raw_kernels.window(), fake)
    made: list[Any] = []
    for start in (4096, 8192, 4096):
        window, address = maps.window(slot, at(start, (20, 64)))
        assert address == start
        made.append(window.at(address))
    assert [encoding.address for encoding in fake.encoded] == [4096, 8192]
    assert made[0] is made[2]
    assert maps.window(slot, at(4096, (21, 64)))[0].at(4096) != made[0]  # another shape


def test_as_many_maps_are_kept_as_are_worth_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeDriver, "encode", lambda fake, wanted: bytes(128))
    fake, slot = FakeDriver(), Slot("tensor_map", 0, tensor_map=TensorMap((16, 32)))
    maps = TensorMaps(raw_kernels.window(), fake)
    window, _ = maps.window(slot, at(4096, (20, 64)))
    for number in range(3 * _PLACES):
        window.at(4096 * (number + 1))
    assert len(window._made) <= _PLACES
    for rows in range(1, 3 * _WINDOWS):
        maps.window(slot, at(4096, (rows, 64)))
    assert len(maps._windows) <= _WINDOWS
