"""Accessibility of every view, checked by axe: names, roles, contrast and keyboard access, in light and dark."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from playwright.sync_api import Page

import tessera
from support.lab import Watch
from support.mesh_mlp import arrays, line, mlp
from support.operator_graphs import ROWS, classify
from tessera import autotune, dist, viz
from tessera.core.base.dtypes import bf16
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.profiling.results import Profile
from tessera.viz.base.view import View
from tessera.viz.mesh.model import Mesh, sharded

pytestmark = pytest.mark.browser

AXE = Path(str(files("axe_playwright_python"))) / "axe.min.js"
SOURCE = """
@kernel
def product(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i in tile.range(m, step=BM):
        for j in tile.range(n, step=16):
            C[i:i+BM, j:j+16] = tile.dot(A[i:i+BM, :], B[:, j:j+16])
"""
A, B, C = np.ones((40, 16), np.float32), np.ones((16, 24), np.float32), np.zeros((40, 24), np.float32)
AnyView = View[Any]
MODEL = dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64)


@pytest.fixture(scope="module")
def product() -> Kernel:
    kernel: Kernel = tessera.compile_source(SOURCE).product
    return kernel.variant(BM=16)


@pytest.fixture(scope="module")
def profile(product: Kernel) -> Profile:
    return tessera.profile(product)(A, B, C)


def mesh() -> AnyView:
    made = Mesh.of({"data": 2, "model": 4})
    array = sharded(made, (64, 64), ("data", "model"), bf16, "W")
    return viz.mesh_view(array, to=sharded(made, (64, 64), (None, "model"), bf16, "W"))


def searched(kernel: Kernel, folder: Path) -> AnyView:
    with overridden(cache_dir=folder):
        return viz.dashboard(autotune.search(kernel=kernel, params={"BM": [8, 16]}, args=(A, B, C)))


VIEWS: Mapping[str, Callable[[Kernel, Profile, Path], AnyView]] = {
    "explore": lambda kernel, _, __: viz.explore(kernel.compile(A, B, C)),
    "diff": lambda kernel, _, __: viz.diff(kernel.compile(A, B, C), kernel.variant(BM=8).compile(A, B, C)),
    "film": lambda kernel, _, __: viz.film(kernel.compile(A, B, C)),
    "dataflow": lambda kernel, _, __: viz.dataflow(kernel.compile(A, B, C)),
    "tiles": lambda kernel, _, __: viz.tiles(kernel, A, B, C),
    "layout": lambda kernel, _, __: viz.layout(kernel.compile(A, B, C, target="cuda:sm_90a")),
    "schedule": lambda kernel, _, __: viz.schedule(kernel, A, B, C),
    "timeline": lambda _, profile, __: viz.timeline(profile),
    "heatmap": lambda _, profile, __: viz.heatmap(profile),
    "roofline": lambda _, profile, __: viz.roofline(profile),
    "explain": lambda _, profile, __: viz.explain(profile),
    "dashboard": lambda kernel, _, folder: searched(kernel, folder),
    "edit": lambda kernel, _, __: viz.edit(kernel, A, B, C),
    "mesh": lambda _, __, ___: mesh(),
    "explore a graph": lambda _, __, ___: viz.explore(classify, *ROWS, levels=("graph", "schedule")),
    "film of a graph": lambda _, __, ___: viz.film(classify, *ROWS),
    "dataflow of a graph": lambda _, __, ___: viz.dataflow(classify, *ROWS),
    "fusion": lambda _, __, ___: viz.fusion(classify, *ROWS),
    "memory": lambda _, __, ___: viz.memory(classify, *ROWS),
    "devices": lambda _, __, ___: viz.devices(mlp, *arrays(line(), stored=False)),
    "collectives": lambda _, __, ___: viz.collectives(mlp, *arrays(line(), stored=False)),
    "parallel": lambda _, __, ___: viz.parallel(dist.plan.search(MODEL, 8)),
    "workbench": lambda kernel, _, __: viz.workbench(kernel, A, B, C),
}


def violations(page: Page) -> list[str]:
    """What axe finds wrong: the rule, and the elements."""
    page.add_script_tag(path=AXE)
    found: list[dict[str, Any]] = page.evaluate(
        "axe.run(document.querySelector('.tsr-view'), { resultTypes: ['violations'] }).then(done => done.violations)"
    )
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing(
    page: Page,
    product: Kernel,
    profile: Profile,
    name: str,
    scheme: Literal["light", "dark"],
    tmp_path: Path,
    watch: Watch,
) -> None:
    # What moves is seen when it has arrived: axe takes a fade for a lack of contrast.
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    view = VIEWS[name](product, profile, tmp_path)
    page.goto(view.save(tmp_path / "page.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    assert violations(page) == []
    assert watch.errors == []
    assert watch.requests == []
