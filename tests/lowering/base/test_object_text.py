"""Machine code of object files."""

from support import programs
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.object_text import object_text
from tessera.lowering.driver.compile import compile_program


def test_code_that_is_listed_is_code_that_runs():
    for program in (programs.saxpy(), programs.softmax_rows()):
        compiled = [compile_program(program, host_target(), observe).artifact for observe in (False, True)]
        plain, listed = (object_text(artifact.code, artifact.entry) for artifact in compiled)
        assert plain == listed
        assert 0 <= plain.entry < len(plain.code)
