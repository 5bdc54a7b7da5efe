"""Tile IR as a text that is read again: what comes back, and where a mistake in it is said to be."""

from dataclasses import replace

import pytest

from support import programs
from tessera.core.compilation import AS_MLIR
from tessera.core.errors.catalog import BadTileIR
from tessera.core.tile.dialect import context
from tessera.core.tile.editable import FILE, function_place, read_stage, stage_listing
from tessera.core.tile.location import spans
from tessera.lowering.tile.to_tile import to_tile


def printed() -> str:
    program = programs.saxpy()
    module = to_tile(program)
    return stage_listing(module, "to-tile", replace(program, options={AS_MLIR: True})).text


def test_a_module_comes_back_with_its_stage():
    with context():
        text = printed()
        module, stage = read_stage(text)
        assert stage == "to-tile"
        assert str(module).replace("module {", 'module attributes {tessera.stage = "to-tile"} {').strip() == text


def test_operations_have_their_place_in_the_text():
    with context():
        text = printed()
        module, _ = read_stage(text)
        (place,) = spans(module.body.operations[0].location)
        assert (place.file, place.line) == (FILE, 2)
        assert function_place(text).line == 2


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("    return", "    retrun", -1, "retrun"),
        ('module attributes {tessera.stage = "to-tile"}', "module", 1, "no attribute `tessera.stage`"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(before: str, after: str, line: int, words: str):
    with context():
        text = printed().replace(before, after)
        with pytest.raises(BadTileIR, match=words) as caught:
            read_stage(text)
    lines = text.split("\n")
    assert caught.value.span.line == (line if line > 0 else 1 + next(n for n, row in enumerate(lines) if after in row))
    assert FILE in str(caught.value)
    assert "^" in str(caught.value)
