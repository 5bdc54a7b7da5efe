"""tileiras."""

from pathlib import Path

import pytest

from support import programs
from support.tile_machine import lowered
from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.cuda_tile.bytecode import encode
from tessera.lowering.cuda_tile.tileiras import assemble

needs_tileiras = pytest.mark.skipif(find_tool("tileiras") is None, reason="needs tileiras")


@needs_tileiras
def test_what_tileiras_refuses_is_reported():
    with pytest.raises(CompilerCrash, match="tileiras refuses its input"):
        assemble(b"no bytecode", "sm_90")


@needs_tileiras
@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"])
def test_another_toolkit_is_left_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = tmp_path / "nvvm" / "lib64" / "libnvvm.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"of another version")
    monkeypatch.setenv(name, str(tmp_path))
    program = programs.softmax_rows(64, 4)
    bytecode = encode(lowered(program)[1], program.source, program.span)
    assert assemble(bytecode, "sm_90").startswith(b"\x7fELF")
