"""Sizes of object files."""

from support import programs
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.object_code import loaded_bytes
from tessera.lowering.driver.compile import compile_program


def test_code_has_one_size_whether_it_was_listed_or_not():
    plain, listed = (
        compile_program(programs.saxpy(), host_target(), observe).artifact.code for observe in (False, True)
    )
    assert len(plain) < len(listed)
    assert 0 < loaded_bytes(plain) == loaded_bytes(listed) < len(plain)


def test_an_interpreted_kernel_has_none():
    assert loaded_bytes(b"") == 0
