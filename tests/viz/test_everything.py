"""Every view of everything that people bring: kinds of launches, of arrays, of types and of texts.

What a view shows is compared with NumPy where it shows values, and with the other views of the same launch where it
counts something.  `tests/browser/test_everything.py` opens the pages.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import pytest

import tessera
from support.operator_graphs import CASES as GRAPHS
from support.view_cases import CASES, TWICE, Array, Case, host, numbers
from tessera import viz
from tessera.core.errors.catalog import (
    NotAnArray,
    NotAvailableYet,
    NotCalledYet,
    NothingToShow,
    UndefinedName,
    UnknownLevel,
)
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import as_text, encode
from tessera.viz.base.view import View
from tessera.viz.editing.view import EditView
from tessera.viz.tile_debugger.view import TilesView
from tessera.viz.workbenches.view import WorkbenchView

AnyView = View[Any]
MOST_TEXT = 40
GPU = "cuda:sm_90a"
TEXTS = tuple({CASES[name].text: name for name in reversed(tuple(CASES))}.values())
"""Cases of kernels that differ in more than their arguments."""
OFFLINE = ("rows", "phases", "hostile text")
"""Cases that are compiled for GPUs as well, without one."""


def check(view: AnyView) -> AnyView:
    """Hold a view to what all views promise, whatever they show."""
    text = view.text()
    assert text == str(view) == view.text()
    assert len(text.split("\n")) <= MOST_TEXT
    assert not re.search(r"0x[0-9a-f]{6}", text)
    for part in (view.payload(), encode(view.data)):
        strict(as_text(part))
    plain = view.plain_html()
    assert not re.search(r"<(script|style|svg|iframe)\b", plain)
    html = view.html()
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 2
    return view


def strict(text: str) -> None:
    """Assert that a text is JSON as a browser reads it, which knows no NaN."""

    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} in JSON")

    json.loads(text, parse_constant=refuse)


def unchanged(made: tuple[object, ...], before: tuple[object, ...]) -> None:
    """Assert that arguments hold what they held."""
    for now, then in zip(made, before, strict=True):
        assert host(now).tobytes() == host(then).tobytes()


def results(case: Case, values: tuple[object, ...], before: tuple[Array, ...]) -> Mapping[str, Array]:
    """Return what a call leaves, of the arrays as they were `before` it and the numbers among its values."""
    return case.expected(*(then if then.ndim else value for value, then in zip(values, before, strict=True)))


def copied(values: tuple[object, ...]) -> tuple[Array, ...]:
    return tuple(host(value).copy() for value in values)


@pytest.mark.parametrize("name", CASES)
def test_tiles_hold_the_values_that_numpy_computes(name: str):
    case = CASES[name]
    kernel, values = case.kernel(), case.made()
    before = copied(values)
    view = cast("TilesView", check(viz.tiles(case.launch(kernel), *values)))
    unchanged(values, before)
    trace = view.trace
    expected = results(case, values, before)
    if not trace.tiles:
        assert trace.total == 0
        assert view.data.left_out[0].startswith("no statement ran")
        return
    assert not trace.left_out
    shown = {array.name: number for number, array in enumerate(trace.arrays)}
    for output, wanted in expected.items():
        found = ended(view, shown[output])
        compare(found, wanted, case.tolerance)
        # What the call changed is marked as written, and by the tiles that say so.
        written = trace.marks(shown[output]) & 2 > 0
        was = host(before[[each.arg for each in kernel.source.function.args.args].index(output)])
        assert written[different(was, found, 0.0)].all()
    assert all("$" not in each.name for step in trace.steps for each in step.variables)


def ended(view: TilesView, array: int) -> Array:
    """Return what an array holds at the end."""
    found = view.trace.contents(array, len(view.trace.steps) - 1)
    assert found is not None
    return found


def different(found: Array, wanted: Array, tolerance: float) -> Array:
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance))


def compare(found: Array, wanted: Array, tolerance: float) -> None:
    assert found.shape == wanted.shape
    assert not different(found, wanted, tolerance).any()


@pytest.mark.parametrize("name", CASES)
def test_views_of_a_call_agree_with_each_other(name: str):
    case = CASES[name]
    kernel, values = case.kernel(), case.made()
    before = copied(values)
    launch = case.launch(kernel)
    schedule = check(viz.schedule(launch, *values))
    unchanged(values, before)
    launch(*values)
    for output, wanted in results(case, values, before).items():
        parameters = [each.arg for each in kernel.source.function.args.args]
        compare(host(values[parameters.index(output)]), wanted, case.tolerance)
    compiled = kernel.last
    assert compiled is not None
    first = compiled.phases[0] if compiled.phases else compiled
    profile = tessera.profile(kernel, case.grid)(*case.made())
    assert len(profile.next_phases) == max(0, len(compiled.phases) - 1)
    assert schedule.data.launch.predicted.group.size == profile.work.groups == first.groups
    heat = check(viz.heatmap(profile))
    assert [each.duration.size for each in heat.data.launches] == [
        each.work.groups for each in (profile, *profile.next_phases)
    ]
    for make in (viz.timeline, viz.roofline, viz.explain):
        check(make(profile))


@pytest.mark.parametrize("name", TEXTS)
def test_views_of_a_compilation_hold_every_phase(name: str):
    case = CASES[name]
    kernel = case.kernel()
    compiled = kernel.compile(*case.made())
    parts: Sequence[Compiled] = compiled.phases or (compiled,)
    explorer = check(viz.explore(compiled))
    film, graph, same = check(viz.film(compiled)), check(viz.dataflow(compiled)), check(viz.diff(compiled, compiled))
    assert explorer.data.source[0].strip().startswith("@kernel")
    for level in ("tile", "target", "llvm", "asm"):
        lines = [line.text for line in explorer.data.stages(level)[-1].lines]
        heads = [line for line in lines if line.startswith("// phase")]
        assert len(heads) == (len(parts) if len(parts) > 1 else 0)
        assert len(lines) == len(heads) + sum(len(part.stage(level).lines) for part in parts)
    last = [line.line.text for line in film.data.frames[-1].lines]
    assert last == [line.text for line in compiled.stage("tile", film.data.frames[-1].stage).lines]
    assert same.data.comparison.told == "no changes"
    nodes = {node.id.replace(" ", "^").partition("^")[0] for node in graph.data.steps[-1].graph.nodes}
    first = next(iter(parts)).stage("tile")
    assert nodes - {""} <= {record.id for record in first.records}


@pytest.mark.parametrize("name", GRAPHS)
def test_views_of_a_graph_agree_with_each_other(name: str):
    function, arguments = GRAPHS[name]
    explorer, film = check(viz.explore(function, *arguments)), check(viz.film(function, *arguments))
    graph, fusion = check(viz.dataflow(function, *arguments)), check(viz.fusion(function, *arguments))
    memory, same = check(viz.memory(function, *arguments)), check(viz.diff(function, function, args=arguments))
    assert same.data.comparison.told == "no changes"
    last = [line.line.text for line in film.data.frames[-1].lines]
    assert last == [line.text for line in explorer.data.stages("schedule")[-1].lines]
    kernels = len(fusion.data.kernels)
    assert kernels == len(memory.data.moments) == len(graph.data.steps[-1].graph.regions) == len(explorer.data.kernels)
    known = {node.id for node in graph.data.steps[-1].graph.nodes}
    shown = {line.record for line in explorer.data.stages("schedule")[-1].lines if line.record.startswith("g")}
    assert shown <= known
    groups = {cast("dict[str, Any]", view.payload())["group"] for view in (explorer, film, graph, fusion, memory, same)}
    assert len(groups) == 1


@pytest.mark.parametrize("name", OFFLINE)
def test_views_of_code_for_gpus_need_none(name: str):
    case = CASES[name]
    kernel, values = case.kernel(), case.made()
    on_gpu = kernel.compile(*values, target=GPU)
    for made in (
        viz.explore(on_gpu),
        viz.film(on_gpu),
        viz.dataflow(on_gpu),
        viz.diff(kernel.compile(*values), on_gpu),
    ):
        check(made)
    check(viz.schedule(kernel, *values, target=GPU))
    if name == "hostile text":  # which has no tiles
        with pytest.raises(NothingToShow, match="has no tile in registers") as caught:
            viz.layout(on_gpu)
        assert caught.value.hint
        return
    for grid in check(viz.layout(on_gpu)).data.grids:
        assert len(grid.fields[0].values) == math.prod(grid.shape)


@pytest.mark.parametrize("name", ["rows", "phases", "grid", "hostile text", "no element", "bf16"])
def test_the_workbench_and_the_editor(name: str):
    case = CASES[name]
    kernel, values = case.kernel(), case.made()
    before = copied(values)
    bench = check_parts(viz.workbench(case.launch(kernel), *values))
    assert set(bench.views) == {"levels", "passes", "dataflow", "schedule", "profile", "tiles", "edit"}
    unchanged(values, before)
    found = cast("EditView", bench.views["edit"]).editor.apply("options", {"rows_per_group": 2})
    assert not found.error
    assert found.same is True or name == "no element"
    unchanged(values, before)


def check_parts(bench: WorkbenchView) -> WorkbenchView:
    """Check a workbench and every view in it; its page holds a script for each kind."""
    strict(as_text(bench.payload()))
    strict(as_text(encode(bench.data)))
    for view in bench.views.values():
        check(view)
    return bench


def test_views_of_a_kernel_are_those_of_its_last_call():
    case = CASES["phases"]
    kernel = case.kernel()
    for make in (viz.tiles, viz.schedule, viz.workbench, viz.edit):
        with pytest.raises(NotCalledYet, match="phases was not called yet") as caught:
            make(kernel)
        assert caught.value.hint
    kernel(*case.made())
    for make in (viz.explore, viz.film, viz.dataflow, viz.tiles, viz.schedule, viz.edit):
        assert "phases" in check(make(kernel)).text()


VIEWS = ("explore", "film", "dataflow", "layout", "tiles", "schedule", "workbench", "edit")
RUNS = ("tiles", "schedule", "workbench", "edit")


@pytest.mark.parametrize("view", VIEWS)
def test_mistakes_in_a_kernel_have_their_place(view: str):
    kernel = tessera.compile_source(
        "@kernel\ndef wrong(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    y[i] = z[i]\n"
    ).wrong
    values = (numbers(4), numbers(4)) if view in RUNS else ()
    with pytest.raises(UndefinedName) as caught:
        getattr(viz, view)(kernel, *values)
    assert (caught.value.span.line, caught.value.hint) == (4, "define it before the kernel")


@pytest.mark.parametrize("view", ["explore", "film", "dataflow", "layout"])
def test_a_kernel_that_says_too_little_wants_a_call(view: str):
    kernel = tessera.compile_source("@kernel\ndef any(x, y):\n    y[:] = x[:]\n").any
    with pytest.raises(UnknownLevel) as caught:
        getattr(viz, view)(kernel)
    assert caught.value.hint == "call it first, or compile it for arguments: any.compile(x, y)"


@pytest.mark.parametrize("view", RUNS)
def test_masked_arrays_are_refused_by_name(view: str):
    kernel = CASES["lanes"].kernel()
    masked = np.ma.masked_equal(np.arange(3, dtype=np.float32), 1)
    with pytest.raises(NotAnArray, match="x is a masked array"):
        getattr(viz, view)(kernel, masked, np.zeros(3, np.float32))


@pytest.mark.parametrize("target", ["interpret", "cuda_tile:sm_90"])
def test_targets_without_records_say_so_and_show_the_rest(target: str):
    case = Case(CASES["rows"].text.replace("@kernel", f'@kernel(target="{target}")'), *_rest(CASES["rows"]))
    kernel, values = case.kernel(), case.made()
    with pytest.raises(
        NotAvailableYet, match=f"a kernel for the target {target.split(':', maxsplit=1)[0]} has no profile"
    ):
        tessera.profile(kernel)(*values)
    bench = check_parts(viz.workbench(kernel, *values))
    missing = {panel.name: panel.remark for panel in bench.data.panels if not panel.kind}
    assert set(missing) == {"profile", "tuning"}
    assert "has no profile" in missing["profile"]


def _rest(case: Case) -> tuple[Any, Any]:
    return case.made, case.expected


def test_kernels_of_one_name_are_told_apart():
    one, other = CASES["lanes"].kernel(), tessera.compile_source(TWICE.replace("T[", "f32[").replace("+", "*")).twice
    x = numbers(8)
    views = [viz.tiles(kernel, x, np.zeros_like(x)) for kernel in (one, other)]
    groups = {cast("dict[str, Any]", view.payload())["group"] for view in views}
    assert len(groups) == 2
    for view, wanted in zip(views, (x + x, x * x), strict=True):
        assert np.array_equal(ended(view, 1), wanted)
    told = viz.diff(one.compile(x, x.copy()), other.compile(x, x.copy())).data.comparison
    assert told.counts["changed"] + told.counts["added"] > 0


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    case: Mapping[str, Any] = {
        "plain": (torch.randn(10, 7), torch.zeros(10, 7)),
        "transposed": (torch.randn(7, 10).T, torch.zeros(7, 10).T),
        "expanded": (torch.randn(7).expand(10, 7), torch.zeros(10, 7)),
        "with gradients": (torch.randn(10, 7, requires_grad=True), torch.zeros(10, 7)),
    }
    for x, y in case.values():
        kernel: Kernel = CASES["rows"].kernel()
        view = viz.tiles(kernel, x, y, 2.0)
        assert np.array_equal(ended(view, 1), 2 * x.detach().numpy())
        assert not y.any()
        for make in (viz.schedule, viz.edit):
            check(make(kernel, x, y, 2.0))
        check(viz.timeline(tessera.profile(kernel)(x, y, 2.0)))
