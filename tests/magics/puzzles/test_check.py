"""What the check says of wrong answers: one kind of mistake after the other, each with its explanation."""

from typing import Any, cast

import pytest

from tessera.api.source_module import compile_source
from tessera.kernels.kernel import Kernel
from tessera_magics.puzzles.check import Verdict
from tessera_magics.puzzles.course import COURSE
from tessera_magics.puzzles.puzzle import puzzle


def answered(title: str, text: str) -> Verdict:
    """The verdict on an answer to the puzzle of a title; the last kernel of the text is the answer."""
    number = next(n for n, each in enumerate(COURSE, 1) if each.title == title)
    kernels = [each for each in vars(compile_source(text, "answer")).values() if isinstance(each, Kernel)]
    return puzzle(number).check(kernels[-1])


def changed(title: str, old: str, new: str) -> Verdict:
    """The verdict on a solution with one mistake put in."""
    solution = next(each.solution for each in COURSE if each.title == title)
    assert old in solution
    return answered(title, solution.replace(old, new))


BY_LANES = """
@kernel
def k({parameters}):
    {lanes}
    {body}
"""
ONE, TWO = "i = tile.linear_id()", "i, j = launch.thread_id(0), launch.thread_id(1)"
RACES = [
    ("Dot product", "a: f32[n], b: f32[n], out: mut f32[1]", ONE, "if i < n: out[0] += a[i] * b[i]"),
    ("Map", "x: f32[n], out: mut f32[n]", ONE, "out[i // 2] = x[i] + 10.0"),
    ("Sums of rows", "x: f32[h, w], out: mut f32[h]", TWO, "if i < h and j < w: out[i] += x[i, j]"),
    ("Stencil", "x: f32[n], out: mut f32[n]", ONE, "out[0] = x[i]"),
    ("Broadcast", "a: f32[h], b: f32[w], out: mut f32[h, w]", TWO, "if i < h and j < w: out[i, 0] = a[i] + b[j]"),
]


@pytest.mark.parametrize(("title", "parameters", "lanes", "body"), RACES)
def test_races(title: str, parameters: str, lanes: str, body: str):
    verdict = answered(title, BY_LANES.format(parameters=parameters, lanes=lanes, body=body))
    assert verdict.kind == "race"
    assert "nothing says who is first" in verdict.text()
    assert "--> answer, line 5," in verdict.text()


OUTSIDE = [
    ("Guard", "if i < n:", "if i < n + 1:"),
    ("Guard", "if i < n:", "if i <= n:"),
    ("Map in two dimensions", "if i < h and j < w:", "if i < h:"),
    ("Stencil", " if i > 0 else 0.0", ""),
    ("Convolution", " if i + j < n else 0.0", ""),
    ("Matrix product, one lane an element", "range(K)", "range(K + 1)"),
]


@pytest.mark.parametrize(("title", "old", "new"), OUTSIDE)
def test_accesses_outside(title: str, old: str, new: str):
    verdict = changed(title, old, new)
    assert verdict.kind == "out of bounds", verdict.text()
    assert "An index lies outside its array" in verdict.text()
    assert verdict.error is not None
    assert verdict.error.span.line > 2


UNWRITTEN = [
    ("Guard", "if i < n:", "if i < n - 1:", "out[31] is never written."),
    ("Map", "out[i] =", "y =", "out[0] is never written."),
    ("Blocks", "tile.range(n, step=B)", "tile.range(B, n, step=B)", "out[0] is never written."),
    ("Sums of rows", "tile.range(rows)", "tile.range(rows - 1)", "out[1] is never written."),
    ("Quantise", "        scale[r] = largest\n", "", "scale[0] is never written."),
    ("Transpose", "out[j:j+B, i:i+B]", "out[0:B, i:i+B]", "out[8, 0] is never written."),
]


@pytest.mark.parametrize(("title", "old", "new", "said"), UNWRITTEN)
def test_elements_never_written(title: str, old: str, new: str, said: str):
    verdict = changed(title, old, new)
    assert verdict.kind == "never written"
    assert verdict.sentences()[0] == said


EDGES = [
    ("Guard", "out[i] = x[i] * x[i]", "out[i] = x[i] * x[i] if i < 32 else 0.0", "n = 64", "from 32 on"),
    ("Stencil", "if i + 1 < n else 0.0", "if i + 1 < n else 1.0", "n = 4", "from 3 on"),
    ("Stencil", "if i > 0 else 0.0", "if i > 0 else 1.0", "n = 4", "up to 0"),
    ("Convolution", "i + j < n", "i + j < n - 1", "n = 6, k = 2", "at the end"),
    ("Blocks", "tile.maximum(x[t:t+B], 0.0)", "tile.maximum(x[t:t+B], 0.0) + tile.cast(tile.arange(t, t + B) // 48, f32)",
     "n = 64", "from 48 on"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "old", "new", "size", "said"), EDGES)
def test_wrong_values_at_an_edge(title: str, old: str, new: str, size: str, said: str):
    verdict = changed(title, old, new)
    assert (verdict.kind, verdict.size) == ("wrong value", size), verdict.text()
    assert said in verdict.text()


TYPES = [
    ("Map", "out: mut f32[n]", "out: mut f64[n]"),
    ("Map", "x: f32[n]", "x: f16[n]"),
    ("Softmax", "row = x[r, :]", "row = tile.cast(x[r, :], bf16)"),
    ("Quantise", "tile.cast(tile.floor(row / largest + 0.5), i8)", "tile.floor(row / largest + 0.5)"),
    ("Layer norm, reading once", "centred * tile", "tile.cast(centred, f16) * tile"),
]


@pytest.mark.parametrize(("title", "old", "new"), TYPES)
def test_wrong_element_types(title: str, old: str, new: str):
    assert changed(title, old, new).kind == "wrong dtype"


def test_the_first_wrong_element_and_who_wrote_it():
    verdict = changed("Guard", "x[i] * x[i]", "x[i] + x[i]")
    said = verdict.sentences()
    assert said[0] == "out[0] is -8, and should be 16."
    assert "Line 6 wrote it (lane 0 of group 0): `out[i] = x[i] + x[i]`" in said
    assert verdict.tiles is not None
    assert "tiles of square: 1 tile" in verdict.tiles.text()
    assert verdict.tiles.html() in verdict.html()


@pytest.mark.parametrize(
    ("title", "old", "new", "said"),
    [
        ("Rows in reverse", "rows - 1 - r", "r", "in reverse along axis 0"),
        ("Transpose", "x[i:i+B, j:j+B].T", "x[i:i+B, j:j+B]", "the transpose of the right one"),
        ("Map", "x[i]", "(x[i + 1] if i + 1 < n else 0.0)", "shifted by one place"),
        ("Dot product", "out[0] = total", "out[0] += total", "it does not begin at 0"),
    ],
)
def test_results_that_look_like_something_known(title: str, old: str, new: str, said: str):
    verdict = changed(title, old, new)
    assert verdict.kind == "wrong value"
    assert said in verdict.text()


def test_what_a_puzzle_asks_for_beside_results():
    twice = changed("Layer norm, reading once", "centred = row", "centred = x[r, :]")
    assert twice.kind == "reads too often"
    assert "x[0, 0] is read 2 times, and 1 is allowed." in twice.text()
    by_lanes = next(each.solution for each in COURSE if each.title == "Matrix product, one lane an element")
    assert answered("Matrix product by tiles", by_lanes).kind == "missing operation"


def test_barriers():
    assert changed("Running sums", "        tbarrier()\n        buffer", "        buffer").kind == "missing barrier"
    guarded = changed("Running sums", "        buffer[lane] += before\n        tbarrier()",
                      "        buffer[lane] += before\n        if lane > 3:\n            tbarrier()")  # fmt: skip
    assert guarded.kind == "divergent barrier"


def test_sizes_that_were_right_are_named():
    verdict = changed("Guard", "if i < n:", "if i < n or n == 40:")
    assert verdict.kind == "out of bounds"
    assert "It is right for n = 32; n = 64." in verdict.sentences()


def test_an_input_that_is_changed():
    verdict = answered("Map", "@kernel\ndef k(x: mut f32[n], out: mut f32[n]):\n    i = tile.linear_id()\n"
                       "    x[i] = x[i] + 10.0\n    out[i] = x[i]")  # fmt: skip
    assert verdict.kind == "changed input"


def test_what_does_not_compile_and_what_is_no_kernel():
    verdict = changed("Map", "+ 10.0", "+ ten")
    assert verdict.kind == "does not run"
    assert "TSR-E101" in verdict.text()
    with pytest.raises(TypeError, match="takes a kernel"):
        puzzle(1).check(cast("Any", 3))


def test_a_kernel_with_its_grid():
    assert puzzle(3).check(COURSE[2].solved[4, 32]).solved
