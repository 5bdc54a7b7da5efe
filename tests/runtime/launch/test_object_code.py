"""Loading object code."""

import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    with pytest.raises(CompilerCrash, match=r"cannot be linked: Symbols not found: \[ main \]"):
        load(scale_artifact(key="no entry", entry="main"))


def test_damaged_code():
    with pytest.raises(CompilerCrash, match="is damaged"):
        load(scale_artifact(key="damaged", code=b"junk"))


CONSTANTS = """
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
declare double @fmod(double, double)
define i32 @entry(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel) {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %first
  %x = load double, ptr %at
  %y = call double @fmod(double %x, double 1.25)
  store double %y, ptr %scratch
  ret i32 0
}
"""


def fill_addresses() -> None:
    """Leave no free addresses but single pages, each 4 GiB from the next, and what lies below all of them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p

    def take(size: int) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return libc.mmap(None, ctypes.c_size_t(size), 0, flags, -1, ctypes.c_long(0))

    lowest = take(30 << 32)
    while take(mmap.PAGESIZE) > lowest:
        pass
    for number in range(30):
        assert libc.munmap(ctypes.c_void_p(lowest + (number << 32)), ctypes.c_size_t(mmap.PAGESIZE)) == 0


def run_where_addresses_are_few() -> None:
    result = ctypes.c_double()
    load(scale_artifact())
    artifacts = [scale_artifact(key=f"constants {number}", code=object_code(CONSTANTS)) for number in range(8)]
    fill_addresses()
    for number, artifact in enumerate(artifacts):
        first = number % 4
        assert load(artifact).entry(bytes(8), first, 5, ctypes.addressof(result), 0) == 0
        assert result.value == np.fmod(first + 1.5, 1.25)


@pytest.mark.skipif(sys.platform != "linux", reason="fills the addresses as Linux gives them")
def test_code_reaches_its_constants_where_addresses_are_few():
    """Many threads, or CUDA, leave code no two free pages near each other: LLVM's older linker ended the process."""
    code = "from runtime.launch.test_object_code import run_where_addresses_are_few as run; run(); print('ran')"
    tests = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tests.parent, env=os.environ | {"PYTHONPATH": f"{tests.parent}:{tests}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (0, "ran\n"), found.stderr


def test_code_that_is_no_longer_used_is_unloaded():
    code = object_code(CONSTANTS)
    places = {load(scale_artifact(key=f"unloaded {number}", code=code)).address for number in range(600)}
    assert len(places) < 600, "memory of unloaded code is used again"
