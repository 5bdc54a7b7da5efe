"""What may stand at the cursor of a cell, or of a magic's line."""

import pytest

from tessera_magics.completions import completions

CELL = "%%tessera --target cpu\n@kernel\ndef k(x: f32[n]):\n    y = tile.so"


def found(text: str, number: int, line: str) -> list[str] | None:
    offered = completions({}, text, number, line)
    return None if offered is None else [name for name, _ in offered.names]


def test_ordinary_cells_are_left_alone() -> None:
    assert found("tile.so", 0, "tile.so") is None


def test_the_body_offers_names_of_the_language() -> None:
    offered = completions({}, CELL, 3, "    y = tile.so")
    assert offered is not None
    assert (offered.fragment, offered.names) == ("so", (("softmax", "function"),))


@pytest.mark.parametrize(("line", "offered"), [("%%tessera --ta", "--target"), ("%%tessera --target ", "cpu")])
def test_the_first_line_offers_options_and_their_values(line: str, offered: str) -> None:
    names = found(line, 0, line)
    assert names is not None
    assert offered in names
    fragment = completions({}, line, 0, line)
    assert fragment is not None
    assert fragment.fragment == ("" if line.endswith(" ") else "--ta")
    assert fragment.alone


def test_a_line_offers_commands() -> None:
    names = found("%tessera do", 0, "%tessera do")
    assert names is not None
    assert "doctor" in names
