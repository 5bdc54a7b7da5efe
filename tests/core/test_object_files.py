"""What an object needs from outside, and how much of it is loaded."""

import pytest

from support import programs
from support.artifacts import SCALE, object_code
from tessera.core.object_files import loaded_bytes, machine_text, undefined_symbols
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program

CALLS = """
declare float @fmodf(float, float)
declare void @nobody_has_this()
@data = external global i32
define float @entry(float %x) {
  %y = call float @fmodf(float %x, float 3.0)
  call void @nobody_has_this()
  %d = load i32, ptr @data
  %f = sitofp i32 %d to float
  %z = fadd float %y, %f
  ret float %z
}
"""


def test_names():
    assert undefined_symbols(object_code(SCALE)) == ()
    assert set(undefined_symbols(object_code(CALLS))) - {"_GLOBAL_OFFSET_TABLE_"} == {
        "fmodf",
        "nobody_has_this",
        "data",
    }


@pytest.mark.parametrize("code", [b"", b"not an object", b"\x7fELF\x02\x01" + bytes(100), object_code(SCALE)[:200]])
def test_no_object(code: bytes):
    if code.startswith(b"\x7fELF") and not any(code[6:]):
        assert undefined_symbols(code) == ()
        return
    with pytest.raises(ValueError, match="ELF"):
        undefined_symbols(code)


def test_code_has_one_size_whether_it_was_listed_or_not():
    plain, listed = (
        compile_program(programs.saxpy(), host_target(), observe).artifact.code for observe in (False, True)
    )
    assert len(plain) < len(listed)
    assert 0 < loaded_bytes(plain) == loaded_bytes(listed) < len(plain)


def test_code_in_another_form_counts_whole():
    assert loaded_bytes(b"") == 0
    assert loaded_bytes(b"print(1)") == 8


def test_code_that_is_listed_is_code_that_runs():
    for program in (programs.saxpy(), programs.softmax_rows()):
        compiled = [compile_program(program, host_target(), observe).artifact for observe in (False, True)]
        plain, listed = (machine_text(artifact.code) for artifact in compiled)
        entry = compiled[0].entry
        assert plain.code == listed.code
        assert plain.symbols[entry] == listed.symbols[entry] < len(plain.code)


@pytest.mark.parametrize("code", [b"", b"\x7fELF\x02\x01" + bytes(100)])
def test_code_of_something_else(code: bytes):
    with pytest.raises(ValueError, match="ELF"):
        machine_text(code)
