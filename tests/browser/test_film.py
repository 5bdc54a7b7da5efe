"""The film in a browser: keys, the slider, playing, and rows that keep their identity."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from tessera.viz import film
from tests.viz.diffs import kernels

pytestmark = pytest.mark.browser


@pytest.fixture
def shown(page: Page, tmp_path: Path) -> Page:
    view = film(kernels.product.compile(*kernels.arguments(), target="cpu"))
    page.goto(view.save(tmp_path / "film.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-film-row")
    return page


def texts(page: Page) -> list[str]:
    return page.eval_on_selector_all(
        ".tsr-film-row:not(.tsr-film-gone) .tsr-film-code", "rows => rows.map(row => row.textContent.trim())"
    )


def row_of(page: Page, text: str) -> str | None:
    return page.locator(".tsr-film-row:not(.tsr-film-gone)", has_text=text).first.get_attribute("data-key")


def test_keys_step_and_rows_stay_the_same(shown: Page, watch: Watch) -> None:
    store = row_of(shown, "tessera.store")
    shown.focus(".tsr-film-box")
    for _ in range(5):
        shown.keyboard.press("ArrowRight")
    expect(shown.locator(".tsr-film-pass").first).to_have_text("tile-distribute-ranges", use_inner_text=True)
    expect(shown.locator("[role=status]").first).to_have_text(
        "tile-distribute-ranges: 1 changed, 2 moved, 2 split", use_inner_text=True
    )
    assert row_of(shown, "tessera.store") == store
    assert any("tessera.id group" in text for text in texts(shown))
    shown.keyboard.press("ArrowLeft")
    expect(shown.locator(".tsr-film-pass").first).to_have_text("tile-mask-edges", use_inner_text=True)
    assert not any("tessera.id group" in text for text in texts(shown))
    shown.keyboard.press("End")
    expect(shown.locator("input[type=range]").first).to_have_value("10")
    assert watch.errors == []


def test_what_moves_is_seen_moving_unless_motion_is_reduced(shown: Page) -> None:
    shown.focus(".tsr-film-box")
    moving = """() => {
        const press = key => document.querySelector('.tsr-film-box').dispatchEvent(
            new KeyboardEvent('keydown', { key, bubbles: true }));
        press('Home');
        document.getAnimations().forEach(each => each.finish());
        for (let i = 0; i < 5; i++) press('ArrowRight');
        return document.getAnimations().length;
    }"""
    assert shown.evaluate(moving) > 5
    shown.emulate_media(reduced_motion="reduce")
    assert shown.evaluate(moving) == 0


def test_space_plays_and_the_strip_jumps(shown: Page) -> None:
    shown.focus(".tsr-film-box")
    shown.keyboard.press(" ")
    shown.wait_for_function("document.querySelector('.tsr-film-slide input').value !== '0'")
    shown.keyboard.press(" ")
    expect(shown.locator("button[aria-label='play (space)']")).to_have_count(1)
    shown.click(".tsr-film-strip button >> nth=8")
    assert shown.locator(".tsr-film-strip button[aria-current=step]").get_attribute("aria-label") is not None
    expect(shown.locator("input[type=range]").first).to_have_value("8")
