"""Requests of an editor, and their answers."""

import json
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_magics.language.service import LanguageService
from tessera_magics.options import complete_cell

CELL = """%%tessera --target cpu
# π𝜋 and other wide characters
@kernel tile[(128,)] shared(8_KiB)
def scale(x: f32[n], y: mut f32[n], α: f32):
    '𝜋𝜋'; i = tile.linear_id(); j = missing
    if i < n:
        y[i] = α * x[i]
"""
KINDS = ("diagnose", "hover", "complete", "tokens")


def ask(kind: str, text: str, line: int = 0, column: int = 0, **own: object) -> dict[str, object]:
    answer = LanguageService(lambda: own, complete_cell).answer(
        {"type": kind, "text": text, "line": line, "column": column}
    )
    json.dumps(answer)  # plain data
    return answer


def units(line: str, part: str) -> int:
    """The place of `part` in a line, as JavaScript counts."""
    return len(line[: line.index(part)].encode("utf-16-le")) // 2


def test_mistakes_are_placed_in_the_cell_in_utf16_units() -> None:
    line = CELL.split("\n")[4]
    start = units(line, "missing")
    assert ask("diagnose", CELL) == {
        "mistakes": [
            {
                "start": (4, start), "end": (4, start + 7), "code": "TSR-E101", "title": "unknown name",
                "message": "nothing is named 'missing'", "hint": "define it before the kernel", "notes": [],
            }
        ],
        "complete": True,
    }  # fmt: skip


def test_hover_in_utf16_units() -> None:
    line = CELL.split("\n")[4]
    start = units(line, "tile")
    found = ask("hover", CELL, 4, start + 6)
    assert (found["start"], found["end"], found["code"]) == ((4, start), (4, start + 14), "tile.linear_id(axis=None)")
    assert ask("hover", CELL, 6, 8)["code"] == "y: mut f32[n]"
    assert ask("hover", CELL, 0, 3) == {}


def test_completion_in_utf16_units() -> None:
    line = CELL.split("\n")[4]
    start = units(line, "linear_id")
    found = ask("complete", CELL, 4, start + 3)
    assert found["start"] == (4, start)
    assert found["offers"] == [
        {
            "text": "linear_id",
            "kind": "function",
            "detail": "(axis=None)",
            "summary": "index of the lane within its group",
        }
    ]
    assert ask("complete", CELL, 0, len("%%tessera --targ"))["offers"] == [
        {"text": "--target", "kind": "option", "detail": "", "summary": ""}
    ]
    assert ask("complete", "%%tessera --target cu", 0, 21)["start"] == (0, 19)


def test_words_have_their_places() -> None:
    words = ask("tokens", CELL)["words"]
    assert isinstance(words, list)
    assert words[:3] == [(2, 1, 6, "kernel"), (2, 8, 4, "clause"), (2, 21, 6, "clause")]
    assert (4, units(CELL.split("\n")[4], "tile"), 4, "namespace") in words


def test_blank_lines_before_the_magic_count() -> None:
    shifted = ask("diagnose", "\n\n" + CELL)["mistakes"]
    assert isinstance(shifted, list)
    assert shifted[0]["start"][0] == 6
    assert ask("hover", "\n\n" + CELL, 8, 8)["code"] == "y: mut f32[n]"


@pytest.mark.parametrize("text", ["", "x = 1", "%%time\nx", "\n", "%%tesseract\nx"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_cells_are_not_ours(kind: str, text: str) -> None:
    assert ask(kind, text) == {}


@pytest.mark.parametrize("request_", [{}, {"type": "hover"}, {"type": "run", "text": CELL}, {"type": 3, "text": 4}])
def test_what_is_no_request(request_: dict[str, object]) -> None:
    assert list(LanguageService(dict, complete_cell).answer(request_)) == ["error"]


@pytest.mark.parametrize("text", ["%%tessera", "%%tessera\n", "%%tessera \n\n\n"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_that_holds_nothing(kind: str, text: str) -> None:
    assert "error" not in ask(kind, text, 1, 0)
    assert "error" not in ask(kind, text, 9, 9)


def test_an_answer_that_fails_is_an_error_and_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> dict[str, object]:
        raise RuntimeError("no names")

    assert LanguageService(names, complete_cell).answer({"type": "diagnose", "text": CELL}) == {
        "error": "RuntimeError: no names"
    }


def test_names_of_the_notebook_count_at_the_time_of_the_question() -> None:
    names: dict[str, object] = {}
    service = LanguageService(lambda: names, complete_cell)
    request = {"type": "diagnose", "text": CELL}
    assert service.answer(request)["mistakes"] != []
    names["missing"] = 3
    assert service.answer(request)["mistakes"] == []


def test_every_prefix_of_a_cell_has_an_answer() -> None:
    service = LanguageService(dict, complete_cell)
    for end in range(0, len(CELL), 3):
        text = CELL[:end]
        line, column = text.count("\n"), len(text) - text.rfind("\n") - 1
        for kind in KINDS:
            answer = service.answer({"type": kind, "text": text, "line": line, "column": column})
            assert "error" not in answer, (kind, text)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(CELL)), st.integers(0, 12), st.text("xnf32[](),:='\"#@\n\t .𝜋%!tile", max_size=6)),
        min_size=1,
        max_size=4,
    )
)
def test_random_edits_have_an_answer(edits: list[tuple[int, int, str]]) -> None:
    body = CELL
    for place, gone, new in edits:
        body = body[:place] + new + body[place + gone :]
    text = f"%%tessera\n{body}"
    lines = text.split("\n")
    for kind in KINDS:
        answer = ask(kind, text, 2, 5)
        assert "error" not in answer
        if kind == "diagnose":
            for mistake in cast("list[dict[str, tuple[int, int]]]", answer["mistakes"]):
                start, end = mistake["start"], mistake["end"]
                assert 0 < start[0] < len(lines)
                assert start[1] <= len(lines[start[0]].encode("utf-16-le")) // 2
                assert start <= end
