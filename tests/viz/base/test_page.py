"""Static pages of views."""

import base64
import json
import re
import zlib

from tessera.viz.base.page import document, fragment


def test_long_data_are_deflated():
    data = {"lines": ["%0 = arith.constant 1.0 : f32"] * 2000}
    html = fragment("mesh", data, "<b>plain</b>")
    found = re.search(r"data-packed>([^<]*)<", html)
    assert found is not None
    assert json.loads(zlib.decompress(base64.b64decode(found[1]))) == data
    assert html.count("globalThis.__tessera_v1.boot()") == 1
    assert '<div class="tsr-plain"><b>plain</b></div>' in html


def test_a_script_stands_in_a_page_once():
    html = fragment("mesh", {}, "", ("mesh",))
    assert html.count("tsr-enclosure{") == 1
    assert html.count("__tessera_v1??=") == 1


def test_a_document_is_whole():
    page = document("a < b", "<p>x</p>")
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in page
    assert "<p>x</p>" in page
