from html.parser import HTMLParser

from tessera.core.resources import Instructions, Limit, Occupancy, ResourceReport
from tessera.viz.resources_view import instructions_table, limits_table, resources_html, resources_text

REPORT = ResourceReport(
    "gemm", "cuda:sm_90a", threads=384, registers=168, spill_bytes=0, stack_bytes=0, shared_bytes=1 << 17, total=4,
    occupancy=Occupancy(1, 12, 64, (Limit("registers", 1, 64512, 65536, "registers"), Limit("warps", 5, 12, 64, "warps"))),
    instructions=(Instructions("HGMMA", 4, "products <wgmma>"),), notes=("'setmaxnreg' ignored & more",),
)  # fmt: skip
SMALL = ResourceReport("k", "cpu", code_bytes=12)


def test_what_limits_is_marked():
    assert limits_table(REPORT).rows == (
        ("registers", "64,512 of 65,536 registers", "1", "limits"),
        ("warps", "12 of 64 warps", "5", ""),
    )
    assert limits_table(SMALL) is None


def test_instructions_are_listed():
    assert instructions_table(REPORT).rows == (("HGMMA", "4", "products <wgmma>"),)
    assert instructions_table(SMALL) is None


def test_html_is_well_formed_and_escaped():
    text = resources_html(REPORT)
    assert "products &lt;wgmma&gt;" in text
    assert "&#x27;setmaxnreg&#x27; ignored &amp; more" in text
    opened: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
            opened.append(tag)

        def handle_endtag(self, tag: str):
            assert opened.pop() == tag

    Check().feed(text)
    assert opened == []


def test_text_is_the_report():
    assert resources_text(SMALL) == str(SMALL)
