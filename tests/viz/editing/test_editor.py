"""Edits: compiled, compared with the original, timed."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from tessera.viz.editing.editor import Editor

SOURCE = """
@kernel
def scaled(x: f32[n], y: mut f32[n], a: f32):
    for t in tile.range(n, step=64):
        y[t:t+64] = a * x[t:t+64]
"""


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return tessera.compile_source(SOURCE)


@pytest.fixture
def editor(module: ModuleType) -> Editor:
    x = np.arange(500, dtype=np.float32)
    return Editor(module.scaled, (x, np.zeros_like(x), 3.0))


def test_an_edit_of_the_text(editor: Editor):
    text = editor.texts["source"]
    same = editor.apply("source", text.replace("a * x[t:t+64]", "x[t:t+64] * a"))
    assert (same.error, same.same, same.agreements) == ("", True, ("y: the same to the bit",))
    assert same.ratio is not None
    assert same.cell == text.replace("a * x[t:t+64]", "x[t:t+64] * a")
    other = editor.apply("source", text.replace("a * x", "a + x"))
    assert other.same is False
    assert other.agreements[0].startswith("y: 500 of 500 differ, by at most 995 (0.66 of the largest value) at [499]")
    assert other.changes["removed"] == 1 or other.changes["changed"] >= 1
    assert "+        y[t:t+64] = a + x[t:t+64]" in other.text_diff
    assert not np.asarray(editor.values[1]).any()


def test_a_mistake_is_the_outcome(editor: Editor):
    found = editor.apply("source", editor.texts["source"].replace("a * x", "a * z"))
    assert found.line == 4
    assert "^" in found.error
    assert "TSR-E" in found.error
    assert found.same is None
    assert editor.latest is None


def test_an_edit_of_tile_ir(editor: Editor):
    assert "arith.mulf" in editor.texts["tile"]
    found = editor.apply("tile", editor.texts["tile"].replace("arith.mulf", "arith.addf"))
    assert (found.error, found.same, found.cell) == ("", False, "")
    assert editor.latest is not None
    x, y = np.ones(500, np.float32), np.zeros(500, np.float32)
    editor.latest(x, y, 3.0)
    assert (y == 4).all()
    broken = editor.apply("tile", editor.texts["tile"].replace("arith.mulf", "arith.mulff"))
    assert "TSR-E715" in broken.error
    assert broken.line > 1


def test_an_edit_of_ptx_is_compiled_where_it_cannot_run(editor: Editor):
    found = editor.apply("ptx", editor.texts["ptx"].replace("mul.rn.f32", "add.rn.f32"))
    assert (found.error, found.same, found.ratio) == ("", None, None)
    assert found.note == "compiled for cuda, and not run: the kernel runs on cpu"
    broken = editor.apply("ptx", editor.texts["ptx"].replace("ret;", "retn;"))
    assert "TSR-E716" in broken.error
    assert "retn" in editor.texts["ptx"].replace("ret;", "retn;").split("\n")[broken.line - 1]


def test_options_become_a_variant(editor: Editor):
    found = editor.apply("options", {"rows_per_group": 4})
    assert (found.error, found.same) == ("", True)
    assert found.cell.endswith("\n\nscaled = scaled.variant(rows_per_group=4)")
    refused = editor.apply("options", {"rows_per_group": 3})
    assert "rows_per_group=3 is not one of" in refused.error
