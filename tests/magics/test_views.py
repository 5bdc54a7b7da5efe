"""Views by magics: `%%tessera --view`, `%tessera VIEW NAME`, `%tessera diff A B`."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from IPython.core.error import UsageError

from support.shell import Shell
from tessera import viz
from tessera.core.errors.catalog import NotCalledYet
from tessera.profiling.results import Profile
from tessera_magics import views
from tessera_magics.line import _diff, _view

CELL = """
import numpy as np

@kernel
def scale(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i]

scale(np.arange(500, dtype=np.float32), np.zeros(500, np.float32), 2.0)
"""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...]]]:
    """Functions of `tessera.viz` that only note what they are given."""
    calls: list[tuple[str, tuple[Any, ...]]] = []

    def named(name: str) -> Callable[..., str]:
        return lambda *given: calls.append((name, given)) or f"<{name}>"

    monkeypatch.setattr(views, "NAMES", tuple(views._NEEDS))
    for name in (*views._NEEDS, "diff"):
        monkeypatch.setattr(viz, name, named(name), raising=False)
    return calls


def test_names_are_checked_and_completed(recorded: list[tuple[str, tuple[Any, ...]]]):
    assert views.view_names("explorer, timeline,tiles") == ("explore", "timeline", "tiles")
    with pytest.raises(UsageError, match="no view 'timelin'; did you mean timeline"):
        views.view_names("timelin")
    with pytest.raises(UsageError, match="--view needs a view"):
        views.view_names(" , ")


def test_one_profile_serves_all_views_that_need_one(loaded: Shell, recorded: list[tuple[str, tuple[Any, ...]]]):
    loaded.run_cell(f"%%tessera{CELL}").raise_error()
    kernel = loaded.user_ns["scale"]
    assert views.views_of(kernel, ("explore", "timeline", "tiles", "heatmap")) == [
        "<explore>", "<timeline>", "<tiles>", "<heatmap>",
    ]  # fmt: skip
    (_, (shown,)), (_, (first,)), (_, given), (_, (second,)) = recorded
    assert shown is kernel
    assert isinstance(first, Profile)
    assert first is second
    assert given[0] is kernel
    assert [np.shape(value) for value in given[1:]] == [(500,), (500,), ()]


def test_views_that_run_a_kernel_need_a_call(loaded: Shell, recorded: list[tuple[str, tuple[Any, ...]]]):
    loaded.run_cell("%%tessera" + CELL.rsplit("\n", 2)[0]).raise_error()
    with pytest.raises(NotCalledYet, match="scale was not called yet"):
        views.views_of(loaded.user_ns["scale"], ("tiles",))


def test_a_line_shows_a_view(loaded: Shell, recorded: list[tuple[str, tuple[Any, ...]]]):
    loaded.run_cell(f"%%tessera --out kept{CELL}").raise_error()
    kernel = loaded.user_ns["scale"]
    with mock.patch.object(views, "views_of", return_value=["shown"]) as made:
        assert _view(loaded.user_ns, "explore", "scale") == "shown"
    made.assert_called_once_with(kernel, ("explore",))
    assert _diff(loaded.user_ns, "scale", "kept") == "<diff>"
    assert recorded[-1] == ("diff", (kernel, loaded.user_ns["kept"]))
    with pytest.raises(UsageError, match="no kernel 'scal'; did you mean scale"):
        _diff(loaded.user_ns, "scale", "scal")
