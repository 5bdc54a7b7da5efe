"""The timeline view: its forms, what notebooks show of a profile, and the level of detail of its canvas."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from support import shell
from support.profiles import profile_of
from tessera.core.settings import overridden
from tessera.viz import display, timeline
from tessera.viz.base.payload import as_text
from tessera.viz.profile.model import launch_text
from tessera.viz.profile.unit_bars import bars_html

FRONTEND = Path(__file__).resolve().parents[3] / "frontend"
ESBUILD = FRONTEND / "node_modules" / ".bin" / "esbuild"
FOUND = profile_of([0, 0, 1], [0, 500, 250], [400, 1000, 1000], {"load": [100, 200, 300]})
SOURCE = """
@kernel
def added(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+64] = y[t:t+64] + x[t:t+64]
"""


def test_forms():
    view = timeline(FOUND)
    assert view.text() == launch_text(FOUND)
    assert view.title == "profile of k on Made-up"
    assert view.plain_html() == bars_html(FOUND)
    assert "<script" not in view.plain_html()
    payload = view.payload()
    assert isinstance(payload, dict)
    assert payload["group"] == "k"
    assert '"measured":{"group":{"$array":"i4"' in as_text(payload)


def test_phases_of_a_call_are_launches_of_one_view():
    several = profile_of([0], [0], [9], next_phases=(FOUND,))
    assert [launch.span for launch in timeline(several).data.launches] == [9.0, 1000.0]


def test_notebooks_show_a_profile_by_its_timeline():
    formatter = shell.formatter()
    display.register(formatter)
    data, _ = formatter.format(FOUND)
    assert data["text/plain"] == launch_text(FOUND)
    assert 'data-kind="timeline"' in data["text/html"]


def test_a_real_launch_has_a_prediction(tmp_path: Path):
    with overridden(cache_dir=tmp_path / "cache"):
        x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
        found = tessera.profile(tessera.compile_source(SOURCE).added)(x, y)
        (launch,) = timeline(found).data.launches
    assert launch.predicted is not None
    assert sorted(launch.predicted.group.tolist()) == list(range(64))
    assert launch.lines == (4, 5)
    assert launch.array is not None
    assert launch.array.name == "y"
    page = timeline(found).save(tmp_path / "page.html")
    assert page.stat().st_size < 100_000


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("bins") / "bins.mjs"
    source = FRONTEND / "src" / "profile" / "bins.ts"
    subprocess.run([ESBUILD, source, "--format=esm", f"--outfile={built}"], check=True, capture_output=True)
    runner = built.with_name("run.mjs")
    runner.write_text(
        'import { bin, clear, empty } from "./bins.mjs"; import { readFileSync } from "fs";\n'
        "const cases = JSON.parse(readFileSync(0));\n"
        "console.log(JSON.stringify(cases.map(([start, end, first, last, width, least]) => {\n"
        "  const bins = empty(width), fill = () => bin(bins, start, end, 0, start.length, first, last, least ?? Infinity);\n"
        "  fill(); clear(bins); fill();\n"
        "  return { wide: bins.wide, covered: [...bins.covered], narrow: bins.narrow };\n"
        "})));\n"
    )
    return runner


@pytest.mark.skipif(not ESBUILD.exists() or not shutil.which("node"), reason="the frontend's tools are not installed")
class TestLevelOfDetail:
    """`bin` of frontend/src/profile/bins.ts, run by node."""

    @settings(max_examples=5, deadline=None)
    @given(st.integers(0, 2**32 - 1))
    def test_no_tile_is_lost_or_drawn_twice(self, script: Path, seed: int):
        rng = np.random.default_rng(seed)
        cases: list[tuple[list[float], list[float], float, float, int, float | None]] = []
        for _ in range(60):
            edges = np.cumsum(rng.exponential(rng.choice([0.1, 3.0, 60.0]), 2 * rng.integers(0, 40)))
            first = float(rng.uniform(-10, 60))
            last = first + float(rng.uniform(1, 200))
            least = [None, 0.0, 2.0][rng.integers(3)]
            cases.append((edges[::2].tolist(), edges[1::2].tolist(), first, last, int(rng.integers(1, 50)), least))
        done = subprocess.run(
            ["node", script], input=json.dumps(cases), check=True, capture_output=True, text=True, timeout=60
        )
        for (start, end, first, last, width, least), found in zip(cases, json.loads(done.stdout), strict=True):
            begin, stop = np.array(start), np.array(end)
            seen = np.flatnonzero((begin < last) & ((stop > first) | (begin >= first)))
            pixels = (stop - begin) * width / (last - first)
            wide = [int(n) for n in seen if least is not None and pixels[n] >= least]
            assert found["wide"] == wide
            assert found["narrow"] == len(seen) - len(wide)
            narrow = [n for n in seen if n not in wide]
            inside = sum(min(stop[n], last) - max(begin[n], first) for n in narrow) * width / (last - first)
            assert sum(found["covered"]) == pytest.approx(inside, abs=1e-3)
