"""The layout view in a browser: elements by keyboard, lanes, accesses with bank conflicts."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from tessera.viz import layout
from tessera.viz.layouts.banks import SharedLayout

pytestmark = pytest.mark.browser


def test_a_fragment_is_walked_by_keyboard(page: Page, tmp_path: Path, watch: Watch) -> None:
    page.goto(layout("mma.sync.m16n8k16").save(tmp_path / "layout.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    status = page.locator("[role=status]")
    expect(status).to_have_text("A of mma.sync.m16n8k16, factors bf16; coloured by lane", use_inner_text=True)
    page.locator("canvas").focus()
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(status).to_have_text("[1, 2]: lane 5, register 0, warp 0", use_inner_text=True)
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    assert status.inner_text().endswith("coloured by register")
    page.get_by_role("combobox", name="layout").select_option("2")
    expect(page.locator(".tsr-formula")).to_contain_text("row = lane / 4 + 8 * (r / 2)", use_inner_text=True)
    assert watch.errors == []
    assert watch.requests == []


def test_an_access_with_conflicts_names_its_lanes(page: Page, tmp_path: Path) -> None:
    page.goto(layout(SharedLayout((32, 32), 4, "xor")).save(tmp_path / "banks.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    status = page.locator("[role=status]")
    expect(status).to_have_text("a column, 4 B a lane: 4-way bank conflict; 32 lanes collide", use_inner_text=True)
    expect(page.locator(".tsr-layout").first).to_contain_text(
        "word 0: lane 0; word 256: lane 8; word 512: lane 16; word 768: lane 24", use_inner_text=True
    )
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    assert (
        status.inner_text() == "[1, 0]: bank 4, offset in bytes 144, 16-byte unit 1; accessed by lane 1 (bank conflict)"
    )
    page.get_by_role("button", name="a row, 4 B a lane").click()
    expect(status).to_have_text("a row, 4 B a lane: no bank conflict", use_inner_text=True)
