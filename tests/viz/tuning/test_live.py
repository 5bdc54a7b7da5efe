"""Following a search: a page that hears every message knows what a new page is sent."""

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.tuning.results import ILLEGAL, MEASURED, SKIPPED, Config, Trial, Tuning
from tessera.viz.tuning import live
from tessera.viz.tuning.live import COLUMNS, Follower
from tessera.viz.tuning.model import model_of

CONFIGS = tuple({"A": a} for a in range(6))


class Steered:
    """A search as a follower sees it."""

    def __init__(self) -> None:
        self.trials = {str(c): Trial(c, SKIPPED) for c in CONFIGS}
        self.state, self.phase, self.seconds, self.budget = "running", "compiling", 1.0, 60.0
        self.pins: tuple[Config, ...] = ()
        self.closed = False

    @property
    def result(self) -> Tuning:
        return Tuning("k", "cpu", tuple(self.trials.values()), complete=False, default=CONFIGS[0])

    def listen(self, listener: object) -> object:
        def close() -> None:
            self.closed = True

        return close


def follower(search: Steered) -> Follower:
    return Follower(search)  # pyright: ignore[reportArgumentType]


class Page:
    """Applies what it is told, as the renderer does."""

    def __init__(self, followed: Follower) -> None:
        self.told: list[Any] = []
        self.payload: Any = followed.payload()
        followed.follow(self.told.append)

    def columns(self) -> dict[str, np.ndarray]:
        columns = {name: array(value).copy() for name, value in self.payload["columns"].items()}
        version = self.payload["version"]
        for message in self.told:
            assert message["type"] == "delta"
            assert message["from"] <= version
            version = message["to"]
            for name, changed in message["columns"].items():
                columns[name][array(message["rows"])] = array(changed)
        return columns


def array(value: Any) -> np.ndarray:  # noqa: ANN401 - JSON
    return np.frombuffer(base64.b64decode(value["data"]), value["$array"])


EVENTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1e-6, 2e-6, 5e-6, None]), st.booleans()), max_size=12)


@given(EVENTS)
def test_messages_bring_a_page_up_to_date(events: list[tuple[int, float | None, bool]]):
    search = Steered()
    followed = follower(search)
    page = Page(followed)
    for number, (a, seconds, beat) in enumerate(events):
        known = search.trials[str(CONFIGS[a])]
        at = known.at or 100.0 + number
        made = Trial(CONFIGS[a], ILLEGAL, error="bad", at=at) if seconds is None else Trial(
            CONFIGS[a], MEASURED, (seconds,), str(a), predicted=1e-6, flops=2e3, at=at)  # fmt: skip
        search.trials[str(CONFIGS[a])] = made
        followed.recorded(made)
        if beat:
            followed._next = 0.0  # pyright: ignore[reportPrivateUsage] - as if time had gone by
            followed.beat()
    search.state = "finished"
    followed.beat()
    expected, found = model_of(search.result), page.columns()
    for name in COLUMNS:
        if name not in ("message", "at"):
            np.testing.assert_array_equal(found[name], getattr(expected, name), name)
    head = page.told[-1]["head"]
    assert (head["best"], head["settled"], head["state"]) == (expected.best, expected.settled, "finished")
    assert head["scale"] == expected.scale
    assert head["flops"] == expected.flops


def test_at_most_ten_messages_a_second_and_none_without_news(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    search = Steered()
    followed = follower(search)
    page = Page(followed)
    for step in range(100):
        now[0] = 1.0 + step / 100
        followed.recorded(Trial(CONFIGS[step % 6], MEASURED, (1e-6,), str(step % 6), at=5.0))
        followed.beat()
    assert 9 <= len(page.told) <= 11
    count = len(page.told)
    now[0] = 10.0
    followed.beat()  # what was left
    now[0] = 20.0
    followed.beat()
    assert len(page.told) == count + 1
    search.state = "paused"
    now[0] = 30.0
    followed.beat()
    assert page.told[-1]["head"]["state"] == "paused"
    assert len(page.told[-1]["rows"]["data"]) == 0


def test_a_configuration_by_hand_makes_pages_ask_for_everything():
    search = Steered()
    followed = follower(search)
    page = Page(followed)
    new = Trial({"A": 99}, MEASURED, (1e-6,), "new", at=3.0)
    search.trials["new"] = new
    followed.recorded(new)
    followed.beat()
    assert page.told == [{"type": "anew"}]
    fresh: Any = followed.payload()
    assert fresh["parameters"][0]["values"][-1] == "99"
    assert followed.since(fresh["version"])["type"] == "delta"


def test_pins_are_rows():
    search = Steered()
    search.pins = (CONFIGS[3], {"A": 1000})
    payload: Any = follower(search).payload()
    assert payload["head"]["pins"] == [3]


def test_following_ends():
    search = Steered()
    follower(search).close()
    assert search.closed
