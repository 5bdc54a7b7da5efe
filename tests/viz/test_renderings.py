"""Text and HTML of our objects, by class."""

import pytest

from support.compilations import listing, saxpy_compilation
from tessera.core.compilation import Compilation
from tessera.core.errors.base import TesseraError
from tessera.viz.renderings import RENDERINGS, compiled_bundle, compiled_text, listing_html


def test_a_compilation_names_its_levels() -> None:
    whole = saxpy_compilation()
    assert compiled_text(whole) == "saxpy for cpu: tile, target, asm"
    assert compiled_text(Compilation(whole.artifact, (), ())) == "saxpy for cpu: no level was looked at"


@pytest.mark.parametrize("level", ["tile", "asm"])
def test_a_bundle_opens_the_levels_that_were_asked_for(level: str) -> None:
    bundle = compiled_bundle(saxpy_compilation(), (level,))
    assert bundle["text/plain"] == "saxpy for cpu: tile, target, asm"
    assert f'"open":["{level}"]' in bundle["text/html"].replace(" ", "")
    assert bundle["text/html"].count("<details open>") == 1
    assert "resources: registers" not in bundle["text/html"]  # code of the CPU


def test_a_listing_is_escaped() -> None:
    shown = listing_html(listing("tile", "", "a < b | | 1\n"))
    assert shown.endswith("<code>a &lt; b</code></pre>")


def test_classes_below_another_share_its_rendering() -> None:
    assert TesseraError in RENDERINGS
    assert not [kind for kind in RENDERINGS if kind is not TesseraError and issubclass(kind, TesseraError)]
