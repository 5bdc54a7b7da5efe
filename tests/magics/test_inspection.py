"""What `?` and Shift+Tab say of the names of the language."""

import pytest

from support.shell import Shell
from tessera.frontend.language.reference import REFERENCE


def text(shell: Shell, name: str) -> str:
    return shell.object_inspect_mime(name)["text/plain"]


@pytest.mark.parametrize("name", ["tile.softmax", "reduce_sum", "cp_async.shared.global", "launch.thread_id"])
def test_an_operation_shows_its_signature_and_its_text_alone(loaded: Shell, name: str) -> None:
    shown = text(loaded, name)
    operation = REFERENCE[name]
    assert operation.call in shown
    assert operation.text in shown
    assert "Intrinsic" not in shown
    assert "Refuse" not in shown


def test_a_namespace_lists_its_operations(loaded: Shell) -> None:
    assert "tile.softmax(x, axis=-1): softmax along an axis" in text(loaded, "tile")


def test_the_users_own_names_go_first(loaded: Shell) -> None:
    loaded.user_ns["tile"] = [1, 2]
    assert "list" in text(loaded, "tile")
    assert "magic" in text(loaded, "%%tessera").lower()


def test_a_question_mark_in_a_cell(loaded: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    loaded.run_cell("tile.softmax?")
    assert "Softmax along an axis." in capsys.readouterr().out


def test_other_names_are_still_not_found(loaded: Shell) -> None:
    with pytest.raises(KeyError):
        loaded.object_inspect_mime("nothing.at.all")
