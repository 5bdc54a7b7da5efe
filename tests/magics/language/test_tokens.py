"""What the words of a cell are."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tessera_magics.language.tokens import KINDS, table, words

ROOT = Path(__file__).resolve().parents[3]

CELL = """@kernel tile[(128,)] shared(8_KiB)
def scale(x: f32[n], y: mut f32[n]):
    i = tile.linear_id(axis=0)
    cp_async.shared.global(y, x[0:n])  # tile.sum
    y[i] = x.tile + "f32"
"""


def kinds(text: str) -> list[tuple[str, str]]:
    return [(text[word.start : word.end], word.kind) for word in words(text)]


def test_words_of_a_kernel() -> None:
    assert kinds(CELL) == [
        ("kernel", "kernel"), ("tile", "clause"), ("shared", "clause"), ("8_KiB", "unit"), ("scale", "kernel"),
        ("x", "parameter"), ("f32", "type"), ("n", "extent"), ("y", "parameter"), ("mut", "modifier"), ("f32", "type"),
        ("n", "extent"), ("i", "local"), ("tile", "namespace"), ("linear_id", "operation"), ("cp_async", "namespace"),
        ("shared", "namespace"), ("global", "operation"), ("y", "parameter"), ("x", "parameter"), ("n", "extent"),
        ("y", "parameter"), ("i", "local"), ("x", "parameter"),
    ]  # fmt: skip


def test_host_code_has_colours_of_the_language_alone() -> None:
    assert kinds("n = 3\nx = np.zeros(n)\nk[1](x, n=n)\nz = autotune") == []


def test_a_local_goes_before_the_language() -> None:
    assert ("tile", "local") in kinds("@kernel\ndef k(x: f32[n]):\n    tile = 1\n    y = tile\n")


def test_the_jupyterlab_extension_has_the_same_names() -> None:
    assert json.loads((ROOT / "labextension" / "src" / "names.json").read_text()) == table(), "run `make docs`"


@given(st.text("@kerneldf (x:32[n],)\n\t=.tiu'\"8_KB#", max_size=60))
def test_any_text_has_words_in_order(text: str) -> None:
    found = words(text)
    assert all(word.kind in KINDS and word.start < word.end <= len(text) for word in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
