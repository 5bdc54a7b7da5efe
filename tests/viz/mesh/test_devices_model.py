"""Timelines as columns: rows that are alike share a track, and long ones are drawn together without losing time."""

import numpy as np

from tessera.core.planning.device_timeline import COMMUNICATION, COMPUTE, VIRTUAL, DeviceRow, DeviceSpan, DeviceTimeline
from tessera.viz.mesh.devices_model import MOST_SPANS, devices_model

SPANS = (DeviceSpan(COMPUTE, "matmul", 0.0, 2.0), DeviceSpan(COMMUNICATION, "send", 1.0, 4.0, 1024.0, "unmeasured"))


def test_rows_that_do_the_same_share_a_track():
    rows = tuple(DeviceRow(f"device {n}", (n,), SPANS) for n in range(72))
    model = devices_model(DeviceTimeline("f", VIRTUAL, rows, ("a note",)))
    assert len(model.tracks) == 1
    assert [row.track for row in model.rows] == [0] * 72
    (track,) = model.tracks
    assert [track.start.tolist(), track.end.tolist(), track.lane.tolist()] == [[0.0, 1.0], [2.0, 4.0], [0, 1]]
    assert [model.names[number] for number in track.name] == ["matmul", "send"]
    assert (model.rows[0].exposed, model.rows[0].idle, model.rows[0].sent) == (2.0, 0.0, 1024.0)
    assert model.notes == ("a note", "unmeasured")
    assert not model.condensed


def test_too_many_spans_are_drawn_together_and_keep_their_time():
    spans = [DeviceSpan(COMPUTE, f"F{n}", 2.0 * n, 2.0 * n + 1) for n in range(20_000)]
    spans += [DeviceSpan(COMMUNICATION, f"send {n}", 2.0 * n + 1, 2.0 * n + 1.5, 8.0) for n in range(20_000)]
    model = devices_model(DeviceTimeline("f", VIRTUAL, (DeviceRow("stage 0", (0,), tuple(spans)),)))
    (track,) = model.tracks
    assert len(track.start) <= MOST_SPANS
    assert model.condensed
    assert track.sent.sum() == 20_000 * 8
    for lane, busy in ((0, 20_000.0), (1, 10_000.0)):
        chosen = (track.lane > 0) == bool(lane)
        drawn = ((track.end - track.start) * track.busy / 100)[chosen].sum()
        np.testing.assert_allclose(drawn, busy, rtol=0.02)
    assert any(" and " in name and name.endswith(" others") for name in model.names)


def test_nothing_ran():
    model = devices_model(DeviceTimeline("f", VIRTUAL, ()))
    assert (model.rows, model.tracks, model.seconds) == ((), (), 0.0)
