"""Live views without a page: what Python sends, and what it answers."""

import json
import zlib
from collections.abc import Mapping
from unittest import mock

import pytest

pytest.importorskip("anywidget", reason="anywidget is not installed")

from tessera.viz import mesh_view
from tessera.viz.base.live import LiveView, hub
from tessera.viz.mesh.model import Mesh


def sent(live: LiveView, message: Mapping[str, object]) -> list[tuple[Mapping[str, object], object]]:
    """What goes to the page when it sends `message`."""
    with mock.patch.object(LiveView, "send") as send:
        live._hear(live, message, [])
    return [(call.args[0], json.loads(zlib.decompress(call.args[1][0]))) for call in send.call_args_list]


def test_the_page_gets_the_payload_when_it_asks():
    view = mesh_view(Mesh.of({"a": 2}))
    live = view.widget()
    assert live.kind == "mesh"
    assert live._hub is hub()
    assert sent(live, {"type": "ready"}) == [({"type": "data"}, json.loads(json.dumps(view.payload())))]


def test_a_question_that_fails_is_answered_with_the_error(caplog: pytest.LogCaptureFixture):
    live = mesh_view(Mesh.of({"a": 2})).widget()
    (answer,) = sent(live, {"type": "explode", "number": 7})
    assert answer == (
        {"type": "reply", "reply": 7},
        {"type": "error", "error": "ValueError: MeshView knows no message 'explode'"},
    )
    assert "a view could not answer" in caplog.text


def test_the_scripts_are_sent_by_the_hub_alone():
    assert "__tessera_v1.complete = true" in hub()._esm
    assert len(mesh_view(Mesh.of({"a": 1})).widget()._esm) < 3000
