"""The advice view: forms, and trials from the page."""

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tessera
from support.profiles import profile_of
from tessera.core.settings import overridden
from tessera.profiling.advice.model import Advice, Evidence
from tessera.profiling.results import Profile
from tessera.viz import explain
from tessera.viz.profile import advice_view

SOURCE = """
STEP = 16

@kernel
def added(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]
"""


def test_forms():
    view = explain(profile_of([0], [0.0], [1e6]))
    assert view.text() == "advice on k: .summary() says it in words"
    assert view.summary().splitlines()[1].startswith("at most 75%  too few groups: 1 group for 4 SMs")
    page = view.plain_html()
    assert "<b>too few groups</b> (at most 75%)" in page
    assert "groups 1; SMs 4" in page
    assert "<script" not in page
    payload = view.payload()
    assert isinstance(payload, Mapping)
    assert payload["verdict"] == view.explanation.verdict


def test_unknown_messages_are_refused():
    view = explain(profile_of([0], [0.0], [1e6]))
    with pytest.raises(ValueError, match="no advice"):
        view.answer({"type": "try", "advice": 9, "option": 0}, print)
    with pytest.raises(ValueError, match="knows no message"):
        view.answer({"type": "dance"}, print)


def answers(view: advice_view.AdviceView, message: Mapping[str, object]) -> list[Mapping[str, object]]:
    heard: list[Mapping[str, object]] = []
    done = threading.Event()

    def send(said: Mapping[str, object]) -> None:
        heard.append(said)
        if said["type"] == "tried":
            done.set()

    view.answer(message, send)
    assert done.wait(60)
    return heard


def test_a_trial_tells_its_progress_and_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with overridden(cache_dir=tmp_path):
        x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
        found: Profile = tessera.profile(tessera.compile_source(SOURCE).added)(x, y)
        advice = Advice("tiny groups", "larger", (Evidence("groups", 64, ""),), 0.5, (), ({"STEP": 64},), found.origin)
        made = advice_view.Explanation("verdict", (advice,), ())
        monkeypatch.setattr(advice_view, "explanation", lambda *_: made)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        heard = answers(explain(found), {"type": "try", "advice": 0, "option": 0})
    assert [said["type"] for said in heard] == ["progress"] * (len(heard) - 1) + ["tried"]
    assert heard[-1]["agrees"] is True
    assert str(heard[-1]["text"]).startswith("STEP=64: ")


def test_a_trial_that_fails_says_why():
    view = explain(profile_of([0], [0.0], [1e6]))
    (said,) = answers(view, {"type": "try", "advice": 0, "option": 0})
    assert str(said["error"]).startswith("ValueError: the advice on too few groups")
