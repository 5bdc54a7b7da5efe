"""The mesh view in a page: an NVL72, blocks of an array, and what a change of layout moves."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from tessera.core.base.dtypes import bf16
from tessera.viz import mesh_view
from tessera.viz.mesh.model import Mesh, sharded

pytestmark = pytest.mark.browser


def test_an_nvl72_fits_the_width_and_shows_what_moves(page: Page, tmp_path: Path, watch: Watch) -> None:
    mesh = Mesh.nvl72({"dp": 9, "tp": 8})
    before = sharded(mesh, (4608, 8192), ("dp", "tp"), bf16, "W")
    view = mesh_view(before, to=sharded(mesh, (4608, 8192), (None, "tp"), bf16, "W"))
    page.goto(view.save(tmp_path / "mesh.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-device")
    expect(page.locator(".tsr-device")).to_have_count(72)
    assert page.evaluate(
        "document.querySelector('.tsr-mesh').scrollWidth <= document.querySelector('.tsr-view').clientWidth"
    )
    expect(page.locator("[data-device='13'] .tsr-block").first).to_have_text("1,5", use_inner_text=True)
    page.click("[data-device='13']")
    expect(page.locator(".tsr-foot").first).to_contain_text("sends 8 MiB to 8 devices", use_inner_text=True)
    expect(page.locator(".tsr-piece")).to_have_count(72)
    expect(page.locator(".tsr-piece.tsr-on")).to_have_count(1)
    # A pixel of the matrix where device 0 sends device 8 its block is not that of an empty place.
    pixels = page.evaluate(
        """() => { const c = document.querySelector('.tsr-matrix'), p = c.getContext('2d');
        const at = (row, column) => [...p.getImageData(26 + column * 4 + 1, 26 + row * 4 + 1, 1, 1).data].join();
        return [at(0, 8), at(0, 9)]; }"""
    )
    assert pixels[0] != pixels[1]
    assert watch.errors == []


def test_an_array_of_four_dimensions_is_a_row_of_rectangles(page: Page, tmp_path: Path) -> None:
    array = sharded(Mesh.of({"a": 2, "b": 2, "c": 4}), (4, 6, 64, 96), ("a", None, "b", "c"), bf16, "X")
    page.goto(mesh_view(array).save(tmp_path / "mesh.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-device")
    expect(page.locator("[data-device='15'] .tsr-block").first).to_have_text("1,:,1,3", use_inner_text=True)
    page.locator(".tsr-piece").nth(15).click()
    expect(page.locator(".tsr-device[aria-selected=true]")).to_have_attribute("data-device", "15")
    page.keyboard.press("Escape")
