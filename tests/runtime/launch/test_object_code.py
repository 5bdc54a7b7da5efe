"""Loading object code."""

import ctypes

import pytest

from support.artifacts import object_code, scale_artifact
from tessera.core.errors.catalog import CompilerCrash
from tessera.runtime.launch.object_code import load

MODULO = """
declare float @fmodf(float, float)
define i32 @entry(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel) {
  %x = load float, ptr %slots
  %y = call float @fmodf(float %x, float 3.0)
  store float %y, ptr %scratch
  ret i32 0
}
"""
MISSING = MODULO.replace("fmodf", "nobody_has_this")


def test_functions_of_the_c_library():
    loaded = load(scale_artifact(key="modulo", code=object_code(MODULO)))
    result = ctypes.c_float()
    slots = bytes(ctypes.c_float(7.5)) + bytes(4)
    assert loaded.entry(slots, 0, 1, ctypes.addressof(result), 0) == 0
    assert result.value == 1.5


def test_loaded_once():
    assert load(scale_artifact()) is load(scale_artifact())


def test_a_missing_function_is_an_error_not_the_end():
    with pytest.raises(CompilerCrash, match="calls nobody_has_this, which this process does not have"):
        load(scale_artifact(key="missing", code=object_code(MISSING)))


def test_no_entry_point():
    with pytest.raises(CompilerCrash, match="no entry point 'main'"):
        load(scale_artifact(key="no entry", entry="main"))


def test_damaged_code():
    with pytest.raises(CompilerCrash, match="is damaged"):
        load(scale_artifact(key="damaged", code=b"junk"))
