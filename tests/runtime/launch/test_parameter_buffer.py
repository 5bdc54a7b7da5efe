"""Where each slot of an artifact lies in the block of parameters."""

import ctypes
from dataclasses import replace

from support import raw_kernels
from tessera.core.artifact import Slot, TensorMap
from tessera.runtime.launch.parameter_buffer import ParameterBuffer, ParameterLayout

MAP = Slot("tensor_map", 0, tensor_map=TensorMap((16, 64)))
SLOTS = (MAP, Slot("pointer", 1), Slot("scratch"), MAP, Slot("grid", axis=0), Slot("profile"))


def layout() -> ParameterLayout:
    return ParameterLayout(replace(raw_kernels.window(), slots=SLOTS))


def test_packed_words_first_then_the_others_then_maps_on_multiples_of_64():
    found = layout()
    assert found.offsets == (64, 0, 16, 192, 8, 24)
    assert found.size == 320
    assert [slot.kind for slot in found.packed.slots] == ["pointer", "grid"]
    assert [index for index, _ in found.of_kind("tensor_map")] == [0, 3]
    assert [index for index, _ in found.words] == [2, 5]


def test_the_driver_finds_each_parameter_in_the_artifacts_order():
    found = layout()
    block = ParameterBuffer(found)
    block.fill((7).to_bytes(8, "little") + (9).to_bytes(8, "little"))
    block.write(0, b"a" * 128)
    block.write(3, b"b" * 128)
    block.word(2).value = 11
    places = (ctypes.c_uint64 * 6).from_address(block.addresses.value or 0)
    read = [
        ctypes.string_at(place, 128 if slot.kind == "tensor_map" else 8)
        for place, slot in zip(places, SLOTS, strict=True)
    ]
    assert block.memory[block.place(2) : block.place(2) + 1] == b"\x0b"
    assert read[0] == b"a" * 128
    assert read[3] == b"b" * 128
    assert [int.from_bytes(read[i], "little") for i in (1, 2, 4, 5)] == [7, 11, 9, 0]
    assert [places[i] % 64 for i in (0, 3)] == [0, 0]


def test_a_copy_has_the_same_bytes_elsewhere():
    block = ParameterBuffer(layout())
    block.word(1).value = 5
    other = block.copy()
    assert other.content() == block.content()
    other.word(1).value = 6
    assert block.word(1).value == 5


def test_changes_are_counted():
    block = ParameterBuffer(layout())
    before = block.version
    block.write(0, b"a" * 128)
    assert block.version == before + 1
