"""What is told of the word under the mouse."""

import pytest

from tessera.frontend.language.reference import REFERENCE
from tessera_magics.language.check import check
from tessera_magics.language.hover import Told, hover

CELL = """BLOCK = 64

@kernel
def gemm(A: f16[m, k], B: f16[k, n], C: mut f32[m, n], alpha: f32):
    for i in tile.range(m, step=BLOCK):
        for j in tile.range(n, step=64):
            total = tile.zeros((64, 64))
            row = A[i, :]
            pair = tile.reshape(A[i:i+2, :], -1)
            buffer = tshared.alloc[f32](16, 8)
            for l in range(0, k, 32):
                total += tile.dot(A[i:i+64, l:l+32], B[l:l+32, j:j+64])
            C[i:i+64, j:j+64] = alpha * total + missing
tuned = gemm.autotune(stages=[2, 3])
"""
CHECKED = check(CELL, {})


def at(marked: str, own: dict[str, object] | None = None) -> Told | None:
    """What is told at the bar in `marked`, a line of the cell."""
    plain = marked.replace("|", "")
    assert CELL.count(plain) == 1
    return hover(CELL, CELL.index(plain) + marked.index("|"), CHECKED, own or {})


@pytest.mark.parametrize(
    ("marked", "code"),
    [
        ("tot|al = tile.zeros", "total: tile f32[64, 64]"),
        ("r|ow = ", "row: tile f16[k]"),
        ("p|air = ", "pair: tile f16[2 * k]"),
        ("buf|fer = ", "buffer: shared f32[16, 8]"),
        ("tile.dot(|A[", "A: f16[m, k]"),
        ("            |C[i:i+64", "C: mut f32[m, n]"),
        ("def gemm(|A", "A: f16[m, k]"),
        ("= al|pha *", "alpha: f32"),
        ("for |i in tile", "i: i64"),
        ("step=BLO|CK)", "BLOCK = 64"),
        ("tile.ze|ros((64", "tile.zeros(shape, dtype=f32)"),
        ("ti|le.zeros((64", "tile"),
        ("tshared.al|loc", REFERENCE["tshared.alloc"].call),
        ("C: m|ut f32", "mut"),
        ("A: f1|6[m", "f16"),
        ("k], B: f16[|k", "k"),
        ("range(0, k|, 32)", "k"),
        ("stag|es=[2, 3]", "stages"),
    ],
)
def test_words_of_a_kernel(marked: str, code: str) -> None:
    found = at(marked)
    assert found is not None
    assert found.code == code


def test_texts_come_from_the_reference() -> None:
    zeros, step, extent = at("tile.ze|ros((64"), at("st|ep=BLOCK"), at("A: f16[|m, k]")
    assert zeros is not None
    assert zeros.text == REFERENCE["tile.zeros"].text
    assert CELL[zeros.start : zeros.end] == "tile.zeros"
    assert step is not None
    assert step.text == REFERENCE["tile.range"].about["step"]
    assert extent is not None
    assert extent.text == "The extent of axis 0 of A and axis 0 of C."


def test_nothing_to_tell() -> None:
    assert at("+ miss|ing") is None
    assert at("for i i|n tile") is None
    assert hover("", 0, check("", {}), {}) is None
    assert hover("   ", 1, check("", {}), {}) is None
    assert hover("y = 3 +  4", 8, check("", {}), {}) is None


def test_the_users_own_names_go_first() -> None:
    found = hover("tile.softmax", 8, check("", {}), {"tile": 3})
    assert found is None
    own = hover("@kernel\ndef k(tile):\n    tile.sum\n", 33, check("", {}), {})
    assert own is None
