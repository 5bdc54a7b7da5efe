"""What an object needs from outside."""

import pytest

from support.artifacts import SCALE, object_code
from tessera.runtime.launch.elf_symbols import undefined_symbols

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
