"""One search: what it writes down, and configurations that are added to it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import autotune
from tessera.core.errors.catalog import TuningFailed
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.tuning.record import logs_of, read_log, reopen
from tessera.tuning.search import Search

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


def search_of(kernel: Kernel, *steps: int) -> Search:
    return autotune.follow(
        kernel=kernel, params={"STEP": list(steps)}, args=(np.ones(500, np.float32), np.zeros(500, np.float32))
    )


def test_a_log_tells_the_kernels_text_and_its_default(kernel: Kernel, tmp_path: Path):
    search = search_of(kernel, 32, 64)
    found = search.run(progress=False)
    begin = read_log(found.log)[0]
    assert begin.get("default") == {"STEP": 64}
    assert logs_of(tmp_path / "tuning", "doubled", str(begin.get("source"))) == [Path(found.log)]
    assert logs_of(tmp_path / "tuning", "doubled", "another text") == []
    assert logs_of(tmp_path / "nowhere", "doubled", "") == []


def test_a_log_is_reopened_as_the_search(kernel: Kernel):
    found = search_of(kernel, 32, 64, 0).run(progress=False)
    again = reopen(found.log)
    assert {str(t.config): (t.status, t.seconds, t.compared, t.at) for t in again.trials} == {
        str(t.config): (t.status, t.seconds, t.compared, t.at) for t in found.trials
    }
    assert (again.kernel, again.device, again.default) == (found.kernel, found.device, found.default)
    assert again.complete
    assert again.best == found.best


def test_what_is_no_log_is_refused(tmp_path: Path):
    with pytest.raises(TuningFailed, match="holds no search"):
        reopen(tmp_path / "absent.jsonl")


def test_a_search_goes_on_with_what_is_added(kernel: Kernel):
    search = search_of(kernel, 32, 64)
    search.run(progress=False)
    assert not search.unsettled
    search.extend({"STEP": 128})
    search.extend({"STEP": 32})
    assert search.unsettled
    found = search.run(progress=False)
    assert [trial.config["STEP"] for trial in found.trials] == [64, 32, 128]
    assert {trial.status for trial in found.trials} == {"measured"}
    assert not search.unsettled


def test_it_says_what_it_does(kernel: Kernel):
    search = search_of(kernel, 32)
    assert search.phase == "compiling and timing"
    assert search.budget == autotune.BUDGET
    assert search.seconds >= 0.0
    assert search.so_far().trials[0].status == "skipped"
