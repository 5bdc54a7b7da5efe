"""The dashboard: what it takes, its forms, and what a page asks."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tessera import autotune
from tessera.core.errors.catalog import BadKernelOption, TuningFailed
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.tuning.results import MEASURED, Trial, Tuning
from tessera.viz import dashboard
from tessera.viz.tuning.view import Dashboard, LiveDashboard

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE).doubled.variant(STEP=64)


def values() -> tuple[np.ndarray, np.ndarray]:
    return np.ones(500, np.float32), np.zeros(500, np.float32)


def payload(view: Dashboard) -> Any:  # noqa: ANN401 - JSON
    return view.payload()


def asked(view: Dashboard, **message: object) -> Any:  # noqa: ANN401 - JSON
    replies: list[Mapping[str, object]] = []
    view.answer(message, replies.append)
    (reply,) = replies
    return reply


def test_an_outcome_its_log_and_its_kernel_show_the_same(kernel: Kernel):
    found = autotune.search(kernel=kernel, params={"STEP": [32, 64]}, args=values())
    views = [dashboard(found), dashboard(found.log), dashboard(Path(found.log)), dashboard(kernel)]
    for view in views:
        assert view.data.kernel == "doubled"
        assert {view.data.config(row)["STEP"] for row in range(len(view.data))} == {32, 64}
        assert view.data.config(view.data.best) == found.config
        assert view.data.config(view.data.default) == {"STEP": 64}
        assert view.text() == "tuning of doubled: 2 configurations"
        assert view.title == f"tuning of doubled on {found.device}"


def test_a_kernel_without_a_search_is_refused(kernel: Kernel):
    with pytest.raises(TuningFailed, match="no search of doubled is on disk"):
        dashboard(kernel)


def test_the_forms(kernel: Kernel):
    trials = tuple(Trial({"BM": bm, "BN": bn}, MEASURED, (bm * 1e-6,), f"{bm},{bn}") for bm in (1, 2) for bn in (3, 4))
    view = dashboard(Tuning("<gemm>", "cpu", trials, complete=True))
    assert "explains: BM 100% (best 1); BN 0% (best 3)" in view.plain_html()
    assert "&lt;gemm&gt;" in view.plain_html()
    html = view.html()
    assert 'data-kind="dashboard"' in html
    assert len(html) < 100_000
    found = payload(view)
    assert found["head"]["state"] == "finished"
    assert found["head"]["full"] is True
    assert found["steered"] is False


def test_ten_thousand_trials_are_one_page(kernel: Kernel):
    trials = tuple(
        Trial({"BM": n % 100, "BN": n // 100}, MEASURED, (1e-6 * (1 + n % 7),), str(n), predicted=1e-6, at=1.0 + n)
        for n in range(10_000)
    )
    assert len(dashboard(Tuning("gemm", "cpu", trials, complete=True)).html()) < 600_000


def test_a_point_shows_its_resources_where_the_kernel_is_known(kernel: Kernel):
    x, y = values()
    kernel(x, y)
    found = autotune.search(kernel=kernel, params={"STEP": [32]})
    told = asked(dashboard(found, kernel=kernel), type="detail", row=1)["result"]
    assert [name for name, *_ in told["rows"]][-1] == "code"
    assert asked(dashboard(found), type="use", row=1)["result"] == {
        "code": f"{kernel.source.name} = {kernel.source.name}.variant(STEP=32)"
    }
    assert "need the kernel" in asked(dashboard(found), type="detail", row=1)["result"]["error"]
    with pytest.raises(ValueError, match="Dashboard knows no message 'pause'"):
        asked(dashboard(found), type="pause")


def test_a_page_steers_a_search_that_runs(kernel: Kernel):
    search = autotune.start(kernel=kernel, params={"STEP": [16 * n for n in range(1, 30)]}, args=values())
    view = dashboard(search)
    assert isinstance(view, LiveDashboard)
    asked(view, type="pause")
    assert search.state == "paused"
    assert view.text().endswith("; paused")
    assert asked(view, type="add", text="STEP=1024")["result"] == {"told": "next: STEP=1024"}
    asked(view, type="pin", row=0, on=True)
    assert search.pins == ({"STEP": 64},)
    assert asked(view, type="snapshot")["result"]["head"]["pins"] == [0]
    asked(view, type="pin", row=0, on=False)
    assert search.pins == ()
    asked(view, type="resume")
    assert search.state == "running"
    assert asked(view, type="stop")["result"]["told"].startswith("stopped; ")
    assert search.state == "stopped"
    assert asked(view, type="since", version=10**9)["result"]["type"] == "delta"
    with pytest.raises(BadKernelOption):
        asked(view, type="add", text="NOTHING=1")
    with pytest.raises(ValueError, match="NAME=VALUE"):
        asked(view, type="add", text="what")
    assert payload(view)["steered"] is True
    assert view.figure().to_dict()["data"][0]["type"] == "parcoords"
