"""What a thread launches while a graph is captured."""

import threading
from collections.abc import Iterator

import pytest

from tessera.core.errors.catalog import BadCapture
from tessera.runtime.streams.graph_capture import (
    CapturedGraph,
    CaptureSession,
    close_recording,
    forbid,
    open_recording,
    recording,
    suspended,
)


@pytest.fixture
def opened() -> Iterator[CapturedGraph]:
    yield open_recording()
    close_recording()
    assert CaptureSession.count == 0


def test_only_the_thread_that_opened_it_is_recorded(opened: CaptureSession):
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(recording()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert recording() is opened


def test_one_at_a_time(opened: CaptureSession):
    with pytest.raises(BadCapture, match="being captured already"):
        open_recording()


def test_waiting_cannot_be_captured(opened: CaptureSession):
    with pytest.raises(BadCapture, match="waiting cannot be captured"):
        forbid("waiting")


def test_a_search_runs_although_something_is_recorded(opened: CaptureSession):
    with suspended():
        assert recording() is None
        forbid("waiting")
    assert recording() is opened


def test_nothing_is_recorded():
    assert recording() is None
    forbid("waiting")
