"""tileiras."""

import pytest

from tessera.core.mistakes import CompilerCrash
from tessera.lowering.target.cuda_tile.toolchain import assemble
from tessera.lowering.target.toolchain import find_tool

needs_tileiras = pytest.mark.skipif(find_tool("tileiras") is None, reason="needs tileiras")


@needs_tileiras
def test_what_tileiras_refuses_is_reported():
    with pytest.raises(CompilerCrash, match="tileiras refuses its input"):
        assemble(b"no bytecode", "sm_90")
