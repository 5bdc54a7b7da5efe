"""The viewer's HTML: self-contained, escaped, readable without scripts, small."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import pytest

from tessera.core.artifact import Artifact
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.listing import Line, Listing
from tessera.viz.ir_html import PLAIN_LINES, asset, ir_html
from tessera.viz.ir_view import ir_view


@pytest.fixture
def html(compilation: Compilation) -> str:
    return ir_html(ir_view(compilation.artifact, compilation.listings))


def data_of(html: str) -> dict[str, object]:
    found = re.search(r'class="tsr-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_nothing_is_fetched_and_only_one_script_runs(html: str) -> None:
    assert not re.search(r"https?:|//cdn|@import|url\(|src=|href=|fetch\(|XMLHttp|import\(", html)
    assert len(re.findall(r"<script>", html)) == 1


def test_the_whole_output_of_a_small_kernel_is_small_and_deterministic(compilation: Compilation, html: str) -> None:
    assert len(html.encode()) < 60_000
    assert html == ir_html(ir_view(compilation.artifact, compilation.listings))


def test_tags_are_balanced(html: str) -> None:
    class Balance(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    balance = Balance()
    balance.feed(html)
    assert balance.open == []


def test_each_line_of_the_data_points_at_its_links(html: str) -> None:
    data = data_of(html)
    assert data["open"] == []
    tile, keys = data["panes"][2], data["keys"]
    lines = tile["text"].split("\n")
    at = next(i for i, line in enumerate(lines) if "mulf" in line)
    assert keys[tile["keys"][at]] == [[7], [6], [[7, 16, 28]]]
    assert tile["counts"] == {"fresh": 1, "changed": 1, "gone": 1}
    assert len(tile["keys"]) == len(lines)


def test_hostile_text_stays_text(artifact: Artifact) -> None:
    bad = "</script><img src=x onerror=alert(1)>&<!--"
    source = Source("cell.py", bad, 1, bad)
    hostile = Artifact(**{**{f: getattr(artifact, f) for f in artifact.__slots__}, "name": bad, "source": source})
    line = Line(bad, (Span("cell.py", 1, 1, 1, 9),), (1,))
    html = ir_html(ir_view(hostile, [Listing("tile", bad, (line,))]))
    assert "<img" not in html
    assert "<!--" not in html
    assert html.count("</script>") == 2
    assert data_of(html)["panes"][0]["text"] == bad  # type: ignore[index]


def test_without_scripts_every_level_can_be_read_and_long_ones_are_cut(artifact: Artifact) -> None:
    lines = tuple(Line(f"op{i}", (Span("cell.py", 7, 1, 7, 5),), (i,)) for i in range(PLAIN_LINES + 3))
    html = ir_html(ir_view(artifact, [Listing("tile", "", lines), Listing("asm", "", lines[:1])]), ["asm"])
    plain = html[html.index("tsr-plain") : html.index("<style>")]
    assert f"op{PLAIN_LINES - 1}\n" in plain
    assert f"op{PLAIN_LINES}\n" not in plain
    assert "... 3 more lines" in plain
    assert "<details open><summary>machine code of the CPU (1 line)" in plain
    assert "   L7  op0" in plain


def test_long_levels_are_sent_deflated_and_whole(artifact: Artifact) -> None:
    lines = tuple(Line(f"vaddps %ymm{i}, %ymm1, %ymm2  # step {i}") for i in range(5000))
    html = ir_html(ir_view(artifact, [Listing("asm", "", lines)]))
    assert len(html) < 100_000
    found = re.search(r'class="tsr-data" data-packed>(.*?)</script>', html)
    assert found is not None
    data = json.loads(zlib.decompress(base64.b64decode(found[1])))
    assert data["panes"][0]["text"].split("\n") == [line.text for line in lines]


def test_an_empty_compilation_still_shows_its_source(artifact: Artifact) -> None:
    html = ir_html(ir_view(artifact, []))
    assert "y[i] = alpha * x[i] + y[i]" in html


def test_assets_are_sent_without_comments() -> None:
    assert "// " not in "\n".join(line for line in asset("ir.js").splitlines() if line.startswith("//"))
    assert len(asset("ir.js")) < 24_000
