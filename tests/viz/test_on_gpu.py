"""Every view of launches on a GPU: of CuPy's and torch's arrays, with the records that the GPU itself wrote."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tessera
from support.view_cases import CASES, Array, Case
from tessera import autotune, viz
from tessera.profiling.results import Profile
from tessera.viz.base.payload import as_text, encode
from tessera.viz.base.view import View
from tessera.viz.editing.view import EditView
from tessera.viz.tile_debugger.view import TilesView
from tessera.viz.tuning.view import Dashboard

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:product .* has no tensor cores"),  # its case has 40 columns
]
LIBRARIES = ("cupy", "torch")
LAYOUTS = ("contiguous", "transposed", "strided", "shifted")
FOREIGN = ("dlpack", "array interface", "memoryview", "bf16", "u32")
"""Cases whose arguments are of the host alone, or that CuPy or torch have no type for."""
ON_DEVICE = tuple(name for name in CASES if name not in FOREIGN)


def on_device(value: object, library: str, layout: str = "contiguous") -> Any:  # noqa: ANN401 - an array of either library
    """Return a host array's copy on the GPU, as an array of a library that lies in memory as `layout` says."""
    if not isinstance(value, np.ndarray):
        return value
    xp = pytest.importorskip(library)
    if library == "torch":
        host = xp.from_numpy(np.ascontiguousarray(value)).cuda()
        empty = lambda *shape: xp.empty(shape, dtype=host.dtype, device="cuda")  # noqa: E731
    else:
        host = xp.asarray(np.ascontiguousarray(value))
        empty = lambda *shape: xp.empty(shape, host.dtype)  # noqa: E731
    if layout == "contiguous" or not value.ndim:
        return host
    if layout == "transposed":
        made = empty(*reversed(value.shape)).T if value.ndim == 2 else empty(*value.shape)
    elif layout == "strided":
        made = empty(*(2 * extent for extent in value.shape))[tuple(slice(None, None, 2) for _ in value.shape)]
    else:  # begins at an element that no vector access may assume aligned
        made = empty(*(extent + 1 for extent in value.shape))[tuple(slice(1, None) for _ in value.shape)]
    made[...] = host
    return made


def host(value: Any) -> Array:  # noqa: ANN401 - an array of either library
    """Return an array as one of NumPy."""
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value.get() if hasattr(value, "get") else value)


def check(view: View[Any], tmp_path: Path) -> View[Any]:
    """Hold a view to what all views promise, and write its page."""
    for part in (view.payload(), encode(view.data)):
        json.loads(as_text(part))
    assert view.text()
    page = Path(view.save(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert "</html>" in page
    return view


def close(found: Array, wanted: Array, tolerance: float) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=2e-6, atol=tolerance)


def made_of(case: Case, library: str, layout: str) -> tuple[tuple[object, ...], tuple[Any, ...]]:
    values = case.made()
    return values, tuple(on_device(value, library, layout) for value in values)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ON_DEVICE)
def test_views_of_a_launch(name: str, library: str, tmp_path: Path):
    case = CASES[name]
    kernel = case.kernel()
    values, arrays = made_of(case, library, "contiguous")
    before = [host(each).copy() for each in arrays]
    wanted = case.expected(*(np.array(each, copy=True) if isinstance(each, np.ndarray) else each for each in values))
    for view in (viz.schedule(case.launch(kernel), *arrays), viz.tiles(case.launch(kernel), *arrays)):
        check(view, tmp_path)
    for now, then in zip(arrays, before, strict=True):
        assert host(now).tobytes() == then.tobytes(), "a view has changed its arguments"
    case.launch(kernel)(*arrays)
    names = [each.arg for each in kernel.source.function.args.args]
    for output, expected in wanted.items():
        close(host(arrays[names.index(output)]), expected, case.tolerance)
    compiled = kernel.last
    assert compiled is not None
    assert compiled.target.kind.on_gpu
    for make in (viz.explore, viz.film, viz.dataflow):
        check(make(compiled), tmp_path)
    check_profile(tessera.profile(kernel, case.grid)(*arrays), tmp_path)


def check_profile(profile: Profile, tmp_path: Path) -> None:
    """Hold the records of a GPU to what a launch can be, and the views of them to the records."""
    parts = (profile, *profile.next_phases)
    for each in parts:
        assert each.machine.on_gpu
        tiles = each.tiles
        assert len(tiles) == -(-each.work.groups // each.every)
        assert ((tiles.unit >= 0) & (tiles.unit < each.machine.units)).all()
        assert (tiles.end >= tiles.start).all()
        assert (tiles.start >= 0).all()
        assert np.unique(tiles.group).size == len(tiles)
    heat = check(viz.heatmap(profile), tmp_path)
    assert [launch.duration.size for launch in heat.data.launches] == [each.work.groups for each in parts]
    timeline = check(viz.timeline(profile), tmp_path)
    for launch, each in zip(timeline.data.launches, parts, strict=True):
        assert launch.measured is not None
        assert launch.measured.group.size == len(each.tiles)
        assert launch.unit == "SM"
    for make in (viz.roofline, viz.explain):
        check(make(profile), tmp_path)
    trace = json.loads(profile.export_trace(tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert trace["traceEvents"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["lanes", "rows", "phases", "product", "softmax"])
def test_views_of_arrays_in_any_layout(name: str, library: str, layout: str, tmp_path: Path):
    case = CASES[name]
    kernel = case.kernel()
    values, arrays = made_of(case, library, layout)
    wanted = case.expected(*values)
    view = cast("TilesView", check(viz.tiles(kernel, *arrays), tmp_path))
    shown = {array.name: number for number, array in enumerate(view.trace.arrays)}
    for output, expected in wanted.items():
        found = view.trace.contents(shown[output], len(view.trace.steps) - 1)
        assert found is not None
        close(found, expected, case.tolerance)
    kernel(*arrays)
    names = [each.arg for each in kernel.source.function.args.args]
    for output, expected in wanted.items():
        close(host(arrays[names.index(output)]), expected, case.tolerance)
    check_profile(tessera.profile(kernel)(*arrays), tmp_path)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["rows", "phases", "product"])
def test_the_workbench_edits_and_measures_on_the_gpu(name: str, library: str, tmp_path: Path):
    case = CASES[name]
    kernel = case.kernel()
    _, arrays = made_of(case, library, "contiguous")
    before = [host(each).copy() for each in arrays]
    bench = viz.workbench(case.launch(kernel), *arrays)
    assert set(bench.views) == {"levels", "passes", "dataflow", "schedule", "profile", "tiles", "edit"}
    for view in bench.views.values():
        check(view, tmp_path)
    editor = cast("EditView", bench.views["edit"]).editor
    for level, change in (("options", {"num_warps": 2}), ("ptx", editor.texts["ptx"])):
        found = editor.apply(level, change)
        assert not found.error
        assert found.same is True
        assert found.ratio
        assert found.figures[0].name == "time of a launch"
    for now, then in zip(arrays, before, strict=True):
        assert host(now).tobytes() == then.tobytes()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_dashboard_of_a_search_on_the_gpu(library: str, tmp_path: Path):
    kernel = tessera.compile_source(
        "@kernel\ndef rows(x: f32[r, c], y: mut f32[r, c]):\n"
        "    for t in tile.range(r, step=STEP):\n        y[t:t+STEP, :] = x[t:t+STEP, :] * 2.0\n"
    ).rows
    x = np.random.default_rng(0).standard_normal((4096, 1000), np.float32)
    arrays = (on_device(x, library), on_device(np.zeros_like(x), library))
    search = autotune.start(kernel=kernel, params={"STEP": [1, 2, 4, 8, 16]}, args=arrays)
    found = search.wait(300)
    assert found.complete
    assert all(trial.status == "measured" and trial.median for trial in found.trials)
    assert not host(arrays[1]).any()
    view = cast("Dashboard", check(viz.dashboard(search), tmp_path))
    assert len(view.data.seconds) == 5


def test_a_gemm_that_fills_the_card(tmp_path: Path):
    cp = pytest.importorskip("cupy")
    a, b = (cp.random.standard_normal((4096, 4096)).astype(cp.float16) for _ in range(2))
    c = cp.zeros((4096, 4096), cp.float32)
    kernel = tessera.compile_source(
        "@kernel\ndef gemm(A: f16[m, k], B: f16[k, n], C: mut f32[m, n]):\n"
        "    for i, j, l in tile.mma(A, B, C, BM=128, BN=128, BK=64):\n        tile.mma_sync(i, j, l)\n"
    ).gemm
    profile = tessera.profile(kernel)(a, b, c)
    check_profile(profile, tmp_path)
    assert profile.attained > 0.3  # of the card's peak: records neither lost nor of another launch
    assert profile.plan is not None
    told = check(viz.explain(profile), tmp_path)
    assert told.data.verdict
