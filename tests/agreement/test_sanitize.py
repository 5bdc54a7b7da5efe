"""The script that runs every shipped kernel under compute-sanitizer."""

import sys

import pytest

from agreement import sanitize
from support.library import Call
from tessera.ops.recipes.launch_recipe import LaunchRecipe


def test_without_the_tool_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["sanitize.py"])
    monkeypatch.setattr(sanitize.shutil, "which", lambda _: None)
    assert sanitize.main() == 1
    assert "compute-sanitizer is not on PATH" in capsys.readouterr().out


def test_calls_are_run_and_checked(capsys: pytest.CaptureFixture[str]):
    assert sanitize.run_all("interpret", "transpose-float32") == 0
    assert "1 of 1 calls right" in capsys.readouterr().out


def test_a_wrong_answer_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (right,) = [call for call in sanitize.library.CALLS if call.name == "transpose-float32"]
    wrong = Call("off by one", right.arguments, lambda x: LaunchRecipe((), lambda: x), right.expected, 0.0)
    monkeypatch.setattr(sanitize.library, "CALLS", (wrong,))
    assert sanitize.run_all("interpret", "off") == 1
    assert "WRONG off by one" in capsys.readouterr().out


@pytest.mark.gpu
def test_memcheck_is_clean_on_a_kernel():
    if sanitize.shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not on PATH")
    assert sanitize.watched("memcheck", "cuda", "transpose")
