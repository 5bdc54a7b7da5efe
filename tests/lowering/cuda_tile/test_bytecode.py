"""Bytecode: what the toolkit's own disassembler reads in it."""

import subprocess
from pathlib import Path

import pytest

from support import programs
from support.tile_cases import control, product, shapes
from support.tile_machine import lowered
from tessera.core.base.dtypes import f16, f32
from tessera.core.errors.catalog import ToolMissing
from tessera.core.program.program import Program
from tessera.lowering.base.cuda_toolkit import find_tool
from tessera.lowering.cuda_tile import bytecode as module
from tessera.lowering.cuda_tile.bytecode import Hints, encode

DISASSEMBLER = find_tool("tileirdisasm")
needs_disassembler = pytest.mark.skipif(DISASSEMBLER is None, reason="needs tileirdisasm")


def disassembled(program: Program, folder: Path, hints: Hints | None = None, *options: str) -> str:
    file = folder / "kernel.tileirbc"
    file.write_bytes(encode(lowered(program)[1], program.source, program.span, hints))
    done = subprocess.run([str(DISASSEMBLER), *options, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_disassembler
def test_a_loop_with_a_product(tmp_path: Path):
    text = disassembled(programs.matmul(64, 64, 32), tmp_path)
    assert text.startswith("entry @matmul(%arg0: tile<ptr<f32>>, %arg1: tile<ptr<f32>>, %arg2: tile<ptr<f32>>")
    assert "mmaf" in text
    assert "tile<64x64xf32>" in text
    assert text.count("load_view_tko weak") == 2
    assert text.count("store_view_tko weak") == 1


@needs_disassembler
def test_places_and_hints_travel(tmp_path: Path):
    text = disassembled(programs.tile_copy(), tmp_path, Hints(warps=8), "-g")
    assert 'loc("cell.py":5:5)' in text
    assert "num_worker_warps_per_cta = 8" in text


@needs_disassembler
@pytest.mark.parametrize("program", [control(), shapes(), product(f16, f32, (16, 16, 16))], ids=lambda p: p.name)
def test_every_kind_of_instruction_is_read_again(program: Program, tmp_path: Path):
    text = disassembled(program, tmp_path)
    for op in ("load", "store", "return"):
        assert op in text


def test_without_the_writer_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    module.library.cache_clear()
    monkeypatch.setattr(module, "PACKAGE", "no-such-package")
    with pytest.raises(ToolMissing, match="not installed"):
        module.library()
    module.library.cache_clear()
