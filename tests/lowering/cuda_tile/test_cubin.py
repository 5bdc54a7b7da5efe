"""What a cubin says of its kernel."""

import pytest

from support import programs
from support.tile_machine import lowered
from tessera.core.errors.catalog import CompilerCrash
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.cuda_tile.bytecode import encode
from tessera.lowering.cuda_tile.cubin import read_usage
from tessera.lowering.cuda_tile.tileiras import assemble

needs_tileiras = pytest.mark.skipif(find_tool("tileiras") is None, reason="needs tileiras")


@needs_tileiras
def test_a_real_one():
    program = programs.softmax_rows(64, 4)
    cubin = assemble(encode(lowered(program)[1], program.source, program.span), "sm_90")
    usage = read_usage(cubin, "softmax_rows")
    assert 8 <= usage.registers <= 255
    assert usage.stack_bytes == 0
    assert usage.lanes == 128
    with pytest.raises(CompilerCrash, match="no kernel 'other'"):
        read_usage(cubin, "other")


def test_what_is_no_cubin():
    with pytest.raises(CompilerCrash, match="no ELF"):
        read_usage(b"text", "kernel")
