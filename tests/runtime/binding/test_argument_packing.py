"""What the entry point gets, slot by slot."""

import numpy as np
import pytest

from support.artifacts import array, echo_artifact, number, scale_artifact
from tessera.core.artifact import Binding, LaunchRule, Slot
from tessera.core.base import dtypes
from tessera.runtime.binding.argument_packing import ArgumentPacking
from tessera.runtime.binding.grid import Grid, Shape
from tessera.runtime.binding.signature import Binder
from tessera.runtime.launch.cpu import CpuLauncher

SINGLE = LaunchRule("single")
OUT = array("out", "count", dtype=dtypes.i64, mutable=True)


def echoed(
    *slots: Slot,
    key: str,
    bindings: tuple[Binding, ...] = (),
    arguments: tuple[object, ...] = (),
    symbols: tuple[tuple[str, int, int, int], ...] = (),
    launch: LaunchRule = SINGLE,
    grid: Grid | None = None,
) -> np.ndarray:
    artifact = echo_artifact(*slots, bindings=(OUT, *bindings), symbols=symbols, launch=launch, key=key)
    out = np.zeros(len(slots) + 1, np.int64)
    CpuLauncher(artifact)(out, *arguments, grid=grid)
    assert out[0] == out.ctypes.data
    return out[1:]


def test_pointers_symbols_and_strides():
    view = np.zeros((6, 8), np.float32)[::2, 1::3]
    found = echoed(
        Slot("pointer", 1), Slot("symbol", symbol="m"), Slot("symbol", symbol="K"), Slot("stride", 1, 0), Slot("stride", 1, 1),
        bindings=(array("x", "m", "k", contiguous=False),), arguments=(view,),
        symbols=(("m", 1, 0, 1), ("K", 1, 1, 4)), key="pointers",
    )  # fmt: skip
    assert list(found) == [view.ctypes.data, 3, 12, 16, 3]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("f64", -2.5), ("f32", -2.5), ("f16", 0.25), ("bf16", -3.0), ("i64", -(1 << 62)), ("i32", -7), ("i16", -7),
     ("i8", -128), ("u64", (1 << 64) - 1), ("u32", (1 << 32) - 1), ("u16", 65535), ("u8", 255), ("bool", True)],
)  # fmt: skip
def test_scalars_lie_in_the_low_bytes(dtype: str, value: object):
    kind = dtypes.BY_NAME[dtype]
    found = echoed(Slot("scalar", 1), bindings=(number("a", kind),), arguments=(value,), key=f"scalar {dtype}")
    bits = found.view(np.uint8)
    assert bits[: kind.bytes].view(kind.numpy)[0] == value
    assert not bits[kind.bytes :].any()


def test_the_launch():
    grid_slots = [Slot("grid", axis=axis) for axis in range(3)]
    found = echoed(*grid_slots, Slot("lanes"), grid=Grid((2, 3, 4)), launch=LaunchRule("groups", (), (32,)), key="grid")
    assert list(found) == [2, 3, 4, 24 * 32]
    found = echoed(
        *grid_slots, Slot("lanes"), grid=Grid((2,), (50,)), launch=LaunchRule("lanes", lanes_per_group=64), key="lanes"
    )
    assert list(found) == [1, 1, 1, 100]


def test_workspaces_are_zeroed_and_aligned():
    artifact = scale_artifact(slots=(Slot("workspace", bytes=100), Slot("pointer", 0), Slot("workspace", bytes=8)))
    binder = Binder(artifact)
    x = np.zeros(4, np.float32)
    plan = ArgumentPacking(artifact, binder)
    facts = binder.facts((x, x, 1.0))
    assert facts is not None
    slots, buffers = plan.pack(facts, Shape((1, 1, 1), 1, 1))
    first, pointer, second = np.frombuffer(slots, np.int64)
    assert pointer == x.ctypes.data
    for address, buffer, size in ((first, buffers[0], 100), (second, buffers[1], 8)):
        assert address % 64 == 0
        assert buffer.ctypes.data <= address
        assert address + size <= buffer.ctypes.data + buffer.nbytes
        assert not buffer.any()


def test_an_unknown_slot():
    artifact = scale_artifact(slots=(Slot("surprise"),))
    with pytest.raises(ValueError, match="has no meaning"):
        ArgumentPacking(artifact, Binder(artifact))
