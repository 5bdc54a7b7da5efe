"""Functions of a cell, found by its tokens."""

import pytest

from tessera_magics.language.scopes import function_at, functions

CELL = """
BLOCK = 64

def helper(v, w=1):
    return v

@kernel tile[(128,)]
def gemm(A: f16[m, k], B: f16[k, n], C: mut f32[m, n], T: Tensor["B", "D", f32], s: f32):
    for i, j in tile.range(m, step=BLOCK):
        total = tile.zeros((64, 64))
        total += first = 1
        C[i] = total
after = 1
"""


def test_parameters_with_their_annotations_and_extents_with_their_axes() -> None:
    helper, gemm = functions(CELL)
    assert (helper.name, helper.is_kernel, helper.parameters) == ("helper", False, {"v": "", "w": ""})
    assert gemm.is_kernel
    assert gemm.parameters == {
        "A": "f16[m, k]", "B": "f16[k, n]", "C": "mut f32[m, n]", "T": 'Tensor["B", "D", f32]', "s": "f32",
    }  # fmt: skip
    assert gemm.extents == {
        "m": [("A", 0), ("C", 0)], "k": [("A", 1), ("B", 0)], "n": [("B", 1), ("C", 1)], "B": [("T", 0)], "D": [("T", 1)],
    }  # fmt: skip
    assert set(gemm.locals) == {"i", "j", "total", "first"}


def test_the_function_around_a_place() -> None:
    inside, outside = function_at(CELL, CELL.index("C[i]")), function_at(CELL, CELL.index("after"))
    assert inside is not None
    assert inside.name == "gemm"
    assert outside is None
    assert [inside.kind_of(name) for name in ("A", "m", "total", "C", "BLOCK")] == [
        "parameter", "extent", "local", "parameter", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("@kernel\ndef k(x: f32[n", {"x": "f32[n"}),
        ("@kernel\ndef k(x: ", {"x": ""}),
        ("@kernel\ndef k(", {}),
        ("@kernel\ndef k", {}),
        ("@kernel\nasync def k(x, *, y=3)", {"x": "", "y": ""}),
    ],
)
def test_headers_that_are_still_being_written(text: str, parameters: dict[str, str]) -> None:
    (found,) = functions(text)
    assert (found.name, found.parameters) == ("k", parameters)


def test_functions_inside_of_functions() -> None:
    text = "def outer(a):\n    @kernel\n    def inner(b):\n        c = 1\n    d = 2\n"
    outer, inner = functions(text)
    assert (outer.is_kernel, inner.is_kernel) == (False, True)
    assert (set(outer.locals), set(inner.locals)) == ({"d"}, {"c"})
    around = function_at(text, text.index("c ="))
    assert around is not None
    assert around.name == "inner"
