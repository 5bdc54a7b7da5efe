"""Masked stores of one lane write one element: as text, as machine code, and in kernels."""

import ctypes
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from llvmlite import binding

import tessera
from tessera.core.settings import overridden
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cpu.masked_store_workaround import store_lone_lanes

_llvm: Any = binding


def host_machine() -> Any:
    """A code generator for this machine; an engine takes it over."""
    _llvm.initialize_native_target()
    _llvm.initialize_native_asmprinter()
    host = host_target()
    return _llvm.Target.from_default_triple().create_target_machine(cpu=host.arch, features=host.features)


def integer(name: str) -> str:
    """NumPy's name of LLVM's `i32`."""
    return f"i{int(name[1:]) // 8}"


def truncation(lanes: int, source: str, element: str, active: set[int], between: str = "") -> str:
    """A function that stores some lanes of a truncated vector."""
    flags = ", ".join(f"i1 {'true' if lane in active else 'false'}" for lane in range(lanes))
    vector = f"<{lanes} x {element}>"
    return f"""
define void @store(ptr %from, ptr %to) {{
  %wide = load <{lanes} x {source}>, ptr %from, align 1
  %1 = trunc <{lanes} x {source}> %wide to {vector}
  tail call void @llvm.masked.store.v{lanes}{element}.p0({vector} %1, ptr {between}align 1 %to, <{lanes} x i1> <{flags}>)
  ret void
}}
declare void @llvm.masked.store.v{lanes}{element}.p0({vector}, ptr, <{lanes} x i1>)
"""


@pytest.mark.parametrize(
    ("active", "alone"),
    [
        ({0}, {0}),
        ({5}, {5}),
        ({0, 1}, set()),
        ({0, 8}, {0, 8}),
        (set(range(9)), {8}),
        (set(range(5)), {4}),
        (set(range(7)), set()),
        (set(range(16)), set()),
    ],
)
def test_lanes_that_are_alone_in_a_part_are_stored_by_themselves(active: set[int], alone: set[int]) -> None:
    text = store_lone_lanes(truncation(16, "i32", "i16", active, "nonnull "))
    assert {int(lane) for lane in re.findall(r"extractelement <16 x i16> %1, i64 (\d+)", text)} == alone
    assert text.count("store i16") == len(alone)
    masks = re.findall(r"call void .*<16 x i1> <(.*)>\)", text)
    left = {lane for mask in masks for lane, flag in enumerate(mask.split(", ")) if flag == "i1 true"}
    assert left == active - alone
    _llvm.parse_assembly(text).verify()


def test_what_is_no_constant_mask_of_short_integers_stays_as_it_is() -> None:
    for text in (
        truncation(8, "i64", "i32", {3}).replace("i32", "float").replace("trunc", "fptrunc").replace("i64", "double"),
        "  call void @llvm.masked.store.v4i8.p0(<4 x i8> %1, ptr align 1 %to, <4 x i1> %2)",
        "  call void @llvm.masked.store.v4i8.p0(<4 x i8> zeroinitializer, ptr align 1 %t, <4 x i1> <i1 true, i1 false>)",
    ):
        assert store_lone_lanes(text) == text


def test_stores_keep_their_place_in_the_source() -> None:
    text = "  call void @llvm.masked.store.v2i8.p0(<2 x i8> %1, ptr align 1 %t, <2 x i1> <i1 true, i1 false>), !dbg !7"
    assert [line.endswith(", !dbg !7") for line in store_lone_lanes(text).split("\n")] == [True] * 3


@pytest.mark.parametrize(("lanes", "source", "element"), [(16, "i32", "i8"), (16, "i32", "i16"), (8, "i64", "i32"),
                                                          (32, "i32", "i8"), (32, "i16", "i8"), (32, "i64", "i16")])  # fmt: skip
def test_machine_code_writes_the_active_lanes_alone(lanes: int, source: str, element: str) -> None:
    for active in [{lane} for lane in range(lanes)] + [set(range(count)) for count in range(2, lanes)]:
        builder = _llvm.JITLibraryBuilder().add_ir(store_lone_lanes(truncation(lanes, source, element, active)))
        library = builder.export_symbol("store").link(_llvm.create_lljit_compiler(host_machine()), "stores")
        store = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library["store"])
        numbers = (np.arange(lanes) * 0x01010101 + 0x11223344).astype(integer(source))
        before = np.full(lanes + 8, 77, integer(element))
        after = before.copy()
        store(numbers.ctypes.data, after.ctypes.data)
        for lane in active:
            before[lane] = numbers[lane].astype(integer(element))
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("step", [1, 5, 17, 33, 49])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8", "u16"])
def test_blocks_leave_the_next_one_alone(dtype: str, step: int) -> None:
    text = f"@kernel\ndef k(x: mut {dtype}[n]):\n    for t in tile.range(n, step={step}):\n"
    kernel = tessera.compile_source(
        f"{text}        x[t:t+{step}] = tile.cast(3 - tile.cast(x[t:t+{step}], i32), {dtype})\n"
    ).k
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "u16": np.uint16}[dtype]
    base = (np.arange(120) % 90).astype(kind)
    expected = np.concatenate([(3 - base[:100].astype(np.int32)).astype(kind), base[100:]])
    with overridden(target="cpu"):
        kernel(base[:100])
    np.testing.assert_array_equal(base, expected)


def test_a_window_of_which_one_column_exists_stores_one() -> None:
    kernel = tessera.compile_source(
        "@kernel\ndef k(x: u32[m, n], y: mut i8[m, n]):\n    for r in tile.range(m, step=4):\n"
        "        y[r:r+4, :] = tile.cast(3 % tile.cast(x[r:r+4, 4:9], i32), i8)\n"
    ).k
    x, y = np.arange(1, 21, dtype=np.uint32).reshape(4, 5), np.full((4, 5), 99, np.int8)
    with overridden(target="cpu"):
        kernel(x, y)
    np.testing.assert_array_equal(y, np.column_stack([3 % x[:, 4:5], np.full((4, 4), 99)]))
