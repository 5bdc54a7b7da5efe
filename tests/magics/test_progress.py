"""The display of a search in a notebook."""

from types import SimpleNamespace

import pytest

from support.shell import Shell
from tessera.core.progress import NOTEBOOK, Steps
from tessera.tuning.progress import Status
from tessera.tuning.results import MEASURED, SKIPPED, Trial, Tuning
from tessera_magics import progress

TUNING = Tuning(
    "gemm", "cpu", (Trial({"BM": 64}, MEASURED, (2e-6,), "a"), Trial({"BM": 128}, SKIPPED)), complete=False,
)  # fmt: skip


def test_one_display_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            shown.append(bundle)

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert not shown, "the second one updates the first"
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr(progress, "display", display)
    one = progress.Display()
    one.show(Status(TUNING, "compiling <and> timing", 1.0))
    one.close(Status(TUNING, "", 1.5))
    assert "width:120px" in shown[0]["text/html"]  # a half is done
    assert "compiling &lt;and&gt; timing" in shown[0]["text/html"]
    assert "<code>64</code>" in shown[0]["text/html"]
    assert shown[1]["text/html"] == ("<div>tuned gemm: 1 of 2 configurations in 1.5 s; best BM=64 with 2.0 us</div>")
    assert {bundle["text/plain"] for bundle in shown} == {"tuning of gemm: 2 configurations, not all tried"}


def test_steps_of_other_work_are_a_bar_and_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            shown.append(bundle)

    def display(bundle: dict[str, str], **_: object) -> Handle:
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr(progress, "display", display)
    one = progress.Display()
    one.show(Steps("film of <k>", 1, 4, "tile-simplify"))
    one.close(Steps("film of <k>", 4, 4))
    assert "width:60px" in shown[0]["text/html"]
    assert "film of &lt;k&gt;: 1 of 4; tile-simplify" in shown[0]["text/html"]
    assert shown[0]["text/plain"] == "film of <k>: 1 of 4; tile-simplify"
    assert shown[1] == {"text/plain": "", "text/html": ""}


def test_it_is_there_in_notebooks_while_the_extension_is_loaded(loaded: Shell) -> None:
    assert NOTEBOOK.opener is not None
    assert NOTEBOOK.opener() is None  # a shell without a kernel is no notebook
    loaded.kernel = object()
    try:
        assert isinstance(NOTEBOOK.opener(), progress.Display)
        loaded.kernel = SimpleNamespace(_allow_stdin=False)  # as nbconvert executes notebooks
        assert NOTEBOOK.opener() is None
    finally:
        del loaded.kernel
    loaded.run_line_magic("unload_ext", "tessera_magics")
    assert NOTEBOOK.opener is None
    loaded.run_line_magic("load_ext", "tessera_magics")
