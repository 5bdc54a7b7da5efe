"""The editor as a view."""

from collections.abc import Mapping

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import NotCalledYet
from tessera.viz import edit

SOURCE = """
@kernel
def scaled(x: f32[n], y: mut f32[n], a: f32):
    for t in tile.range(n, step=64):
        y[t:t+64] = a * x[t:t+64]
"""


def test_a_view_without_arguments_uses_those_of_the_last_call():
    scaled = tessera.compile_source(SOURCE).scaled
    with pytest.raises(NotCalledYet):
        edit(scaled)
    scaled(np.ones(300, np.float32), np.zeros(300, np.float32), 2.0)
    view = edit(scaled)
    assert view.text() == "editor of kernel scaled for cpu: source, tile, ptx, options"
    assert view.data.first_line == 2
    assert "@kernel\ndef scaled" in view.plain_html()


def test_a_page_asks_for_an_outcome():
    scaled = tessera.compile_source(SOURCE).scaled
    x = np.ones(300, np.float32)
    view = edit(scaled, x, x.copy(), 2.0)
    sent: list[Mapping[str, object]] = []
    given = view.data.texts["source"].replace("a * x", "a - x")
    view.answer({"type": "apply", "level": "source", "given": given}, sent.append)
    outcome = sent[0]["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["same"] is False
    assert view.latest is not None
    with pytest.raises(ValueError, match="knows no message 'apply'"):
        view.answer({"type": "apply", "level": "sass", "given": ""}, sent.append)
