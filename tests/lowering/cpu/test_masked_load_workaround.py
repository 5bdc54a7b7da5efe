"""Masked loads longer than a register read the active lanes alone: as text, as machine code, and in kernels."""

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from llvmlite import binding

import tessera
from tessera.core.settings import overridden
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cpu.masked_load_workaround import load_by_registers

_llvm: Any = binding
_AVX = "+avx,+avx2,-avx512f"
_NUMPY = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}
_NAMES = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64"}


def flags(lanes: int, active: int) -> str:
    """A constant mask of the first lanes."""
    return f"<{', '.join(['i1 true'] * active + ['i1 false'] * (lanes - active))}>"


def masked(lanes: int, active: int, form: str) -> str:
    """LLVM IR of a mask that holds in the first lanes where %all does, as the optimizer may leave it."""
    vector = f"<{lanes} x i1>"
    splat = (
        f"  %one = insertelement {vector} poison, i1 %all, i64 0\n"
        f"  %every = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer\n"
    )
    return {
        "and": f"{splat}  %mask = and {vector} %every, {flags(lanes, active)}\n",
        "select": f"  %mask = select i1 %all, {vector} {flags(lanes, active)}, {vector} zeroinitializer\n",
        "lanes": f"{splat}  %mask = select {vector} {flags(lanes, active)}, {vector} %every, {vector} zeroinitializer\n",
    }[form]


def load(lanes: int, element: str, active: int, form: str, otherwise: str = "zeroinitializer") -> str:
    """A function that loads some lanes of a vector."""
    vector, name = f"<{lanes} x {element}>", f"@llvm.masked.load.v{lanes}{_NAMES[element]}.p0"
    return f"""
define void @load(ptr %from, ptr noalias %to, i1 %all) {{
  %other = load {vector}, ptr %to, align 1
{masked(lanes, active, form)}
  %v = tail call {vector} {name}(ptr align 1 %from, <{lanes} x i1> %mask, {vector} {otherwise})
  store {vector} %v, ptr %to, align 1
  ret void
}}
declare {vector} {name}(ptr, <{lanes} x i1>, {vector})
"""


def test_each_register_is_loaded_by_the_instruction() -> None:
    text = load_by_registers(load(16, "float", 3, "and", "%other"), _AVX)
    _llvm.parse_assembly(text).verify()
    assert text.count("call <8 x float> @llvm.x86.avx.maskload.ps.256(ptr %words.v.") == 2
    assert "tail call" not in text
    assert "%v = select <16 x i1> %mask, <16 x float> %words.v.whole, <16 x float> %other" in text
    assert re.findall(r"i64 (\d+)$", text, re.MULTILINE) == ["0", "0", "8"]  # an insertion, and two places


def test_what_the_processor_does_by_itself_stays_as_it_is() -> None:
    text = load(16, "float", 3, "and")
    assert load_by_registers(text, "+avx,+avx2,+avx512f") == text
    assert load_by_registers(text, "+sse2,-avx") == text
    for short in (load(8, "float", 3, "and"), load(4, "i64", 3, "select")):
        assert load_by_registers(short, _AVX) == short
    constant = text.replace("<16 x i1> %mask", f"<16 x i1> {flags(16, 3)}")
    assert load_by_registers(constant, _AVX) == constant


def test_loads_keep_their_place_in_the_source() -> None:
    (line,) = (line for line in load(16, "i32", 3, "and").split("\n") if "masked.load" in line and "call" in line)
    made = load_by_registers(f"{line}, !noalias !3, !dbg !7", _AVX).split("\n")
    assert all(each.endswith(", !dbg !7") and "noalias" not in each for each in made[:-1])
    assert made[-1] == "declare <8 x float> @llvm.x86.avx.maskload.ps.256(ptr, <8 x i32>)"


@pytest.mark.parametrize("form", ["and", "select", "lanes"])
@pytest.mark.parametrize("element", list(_NUMPY))
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_machine_code_reads_the_active_lanes_alone(lanes: int, element: str, form: str) -> None:
    if "+avx2" not in host_target().features.split(","):
        pytest.skip("needs a processor with AVX2")
    _llvm.initialize_native_target()
    _llvm.initialize_native_asmprinter()
    for active in sorted({1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, lanes - 1} & set(range(lanes))):
        for otherwise in ("zeroinitializer", "%other"):
            text = load_by_registers(load(lanes, element, active, form, otherwise), _AVX)
            machine = _llvm.Target.from_default_triple().create_target_machine(cpu="x86-64-v3", opt=2)
            library = _llvm.JITLibraryBuilder().add_ir(text).export_symbol("load")
            linked = library.link(_llvm.create_lljit_compiler(machine), "loads")
            run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool)(linked["load"])
            numbers = np.arange(1, lanes + 1).astype(_NUMPY[element])
            for every in (True, False):
                found = np.full(lanes, 77, _NUMPY[element])
                run(numbers.ctypes.data, found.ctypes.data, every)
                wanted = np.full(lanes, 0 if otherwise == "zeroinitializer" else 77, _NUMPY[element])
                wanted[: active if every else 0] = numbers[: active if every else 0]
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 7, 8, 9, 15])
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (33, 32), (257, 19)])
def test_products_take_nothing_from_the_next_row(rows: int, columns: int, depth: int) -> None:
    product = tessera.compile_source(
        f"@kernel\ndef product(a: f32[{rows}, {depth}], b: f32[{depth}, {columns}], y: mut f32[{rows}, {columns}]):\n"
        f"    for i in tile.range({rows}, step=8):\n"
        f"        for j in tile.range({columns}, step=32):\n"
        "            y[i:i+8, j:j+32] = tile.dot(a[i:i+8, 0:16], b[0:16, j:j+32], tile.zeros((8, 32)))\n"
    ).product
    source = np.random.default_rng(depth)
    a, b = (source.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    a[1::2] = np.nan
    y = np.zeros((rows, columns), np.float32)
    with overridden(target="cpu"):
        product(a, b, y)
    np.testing.assert_array_equal(y, a @ b)
