"""What a search shows while it runs."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

import tessera
from tessera import autotune
from tessera.core import progress as shown
from tessera.core.events import TrialMeasured, publish, subscribe, wanted
from tessera.core.progress import NOTEBOOK, TerminalLine
from tessera.core.settings import overridden
from tessera.tuning.progress import Progress, Status
from tessera.tuning.results import ILLEGAL, MEASURED, SKIPPED, Trial, Tuning

TRIALS = (
    Trial({"BM": 64}, MEASURED, (3e-6,), "a", predicted=1e-6),
    Trial({"BM": 128}, MEASURED, (2e-6,), "b", predicted=1e-6),
    Trial({"BM": 0}, ILLEGAL, error="bad"),
    Trial({"BM": 256}, SKIPPED),
)


def status(**changes: object) -> Status:
    known = Tuning("gemm", "cpu", TRIALS, complete=False, default={"BM": 64})
    return Status(replace(known, **changes), "comparing the best 2", 2.25)


def measured(search: int) -> TrialMeasured:
    return TrialMeasured(
        "gemm", search, "cpu", "comparing the best 2", {"BM": 64}, MEASURED, 3e-6, 1e-6, "", settled=1, total=4
    )


class Terminal(io.StringIO):
    encoding = "ascii"

    def isatty(self) -> bool:
        return True


def test_a_line_tells_how_far_it_is_the_best_and_how_wrong_predictions_are():
    assert status().line == (
        "tuning gemm: 3 of 4; best BM=128 with 2.0 us, 1.50 times as fast as the default; predictions within 25%; "
        "comparing the best 2"
    )
    assert status(trials=TRIALS[3:]).line == "tuning gemm: 0 of 1; comparing the best 2"


def test_the_last_line():
    assert status().last_line == (
        "tuned gemm: 3 of 4 configurations in 2.2 s; best BM=128 with 2.0 us, 1.50 times as fast as the default"
    )
    assert status(interrupted=True, trials=TRIALS[2:]).last_line == (
        "tuning of gemm interrupted after 1 of 2 configurations; nothing was measured; the next search goes on from here"
    )


def test_a_terminal_has_one_line_no_wider_than_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shown.shutil, "get_terminal_size", lambda: type("Size", (), {"columns": 31}))
    terminal = Terminal()
    line = TerminalLine(terminal)
    line.show(status())
    assert terminal.getvalue() == "\r\x1b[Ktuning gemm: 3 of 4; best BM=1"
    line.close(Status(Tuning("größe", "cpu", TRIALS, complete=True), "", 1.0))
    assert terminal.getvalue().endswith(
        "\r\x1b[Ktuned gr\\xf6\\xdfe: 3 of 4 configurations in 1.0 s; best BM=128 with 2.0 us\n"
    )


class Search(Protocol):
    """Search, and return what the terminal shows."""

    def __call__(self, *, progress: bool | None = None, again: bool = False) -> str: ...


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Search]:
    kernel = tessera.compile_source("""
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
""").doubled
    x = np.zeros(100, np.float32)

    def run(*, progress: bool | None = None, again: bool = False) -> str:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        autotune.search(kernel=kernel, params={"STEP": [16, 32]}, args=(x, x.copy()), progress=progress, again=again)
        return terminal.getvalue()

    with overridden(cache_dir=tmp_path):
        yield run


def test_a_search_shows_itself_once_and_a_recorded_one_not_at_all(search: Search):
    shown = search()
    assert "\r\x1b[Ktuning doubled: 1 of 2" in shown
    assert shown.endswith("\n")
    assert search() == ""


def test_it_can_be_switched_off(search: Search):
    assert search(progress=False) == ""
    with overridden(progress=False):
        assert search(again=True) == ""
        assert search(again=True, progress=True) != ""


def test_every_trial_and_what_more_is_measured_of_it_is_told(search: Search):
    told: list[TrialMeasured] = []
    with subscribe(told.append, TrialMeasured):
        assert search(progress=False) == ""
        search(progress=False)  # what is recorded is not measured again
    assert {e.kernel for e in told} == {"doubled"}
    assert len({e.search for e in told}) == 1
    assert {e.config["STEP"] for e in told} == {16, 32}
    assert {e.total for e in told} == {2}
    assert [e.settled for e in told] == sorted(e.settled for e in told)
    assert told[-1].settled == 2
    assert "compiling and timing" in {e.phase for e in told}
    assert all(e.seconds > 0 for e in told if e.status == MEASURED)
    assert not wanted(TrialMeasured)


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    shown = Progress(1, lambda phase: status(), wanted=True)
    shown.see(measured(1))
    shown.close()
    assert stream.getvalue() == ""


def test_a_notebook_goes_first(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    class Display:
        def show(self, state: Status) -> None:
            seen.append(state.line)

        def close(self, state: Status) -> None:
            seen.append(state.last_line)

    monkeypatch.setattr(NOTEBOOK, "opener", Display)
    shown = Progress(1, lambda phase: status(), wanted=None)
    with shown.watching():
        publish(measured(2))  # of another search
        assert seen == []
        publish(measured(1))
        publish(measured(1))  # too soon to be shown
    shown.close()
    assert seen == [status().line, status().last_line]
