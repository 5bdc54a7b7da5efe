"""What is wrong with a cell, without running it."""

from textwrap import dedent

import numpy as np
import pytest

from support.documents import KERNELS
from tessera.frontend.language.reference import REFERENCE
from tessera_magics.language.check import Checked, check

HEAD = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n"


def told(text: str, **user: object) -> list[tuple[str, int, int, int, str]]:
    checked = check(text, user)
    return [(f.code, f.span.line, f.span.column, f.span.end_column, f.hint) for f in checked.findings]


@pytest.mark.parametrize("name", REFERENCE)
def test_the_examples_of_the_reference_have_no_mistakes(name: str) -> None:
    assert check(REFERENCE[name].example, {}).findings == ()


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_of_the_documents_have_no_mistakes(name: str) -> None:
    assert check(KERNELS[name], {}).findings == ()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y[:] = tile.sotmax(x[:])", [("TSR-E102", 3, 12, 23, "did you mean 'softmax'?")]),
        ("y[:] = xx[:]", [("TSR-E101", 3, 12, 14, "did you mean 'x'?")]),
        ("x[:] = 1.0", [("TSR-E206", 3, 5, 9, "write it as x: mut ... in the signature")]),
        ("y[:] = x[:", [("TSR-E001", 3, 13, 14, "add the bracket that closes it")]),
        ("try:\n        pass\n    finally:\n        pass", [("TSR-E002", 3, 5, 13, "move it outside")]),
        ("y[:] = tile.sum(x[:], axes=0)", [("TSR-E104", 3, 12, 34, "it takes (x, axis = None")]),
        ("y[:] = x[:]\n    a = b\n    c = d", [("TSR-E101", 4, 9, 10, ""), ("TSR-E101", 5, 9, 10, "")]),
    ],
)
def test_mistakes_have_their_code_place_and_remedy(body: str, found: list[tuple[str, int, int, int, str]]) -> None:
    got = told(f"{HEAD}    {body}\n")
    assert [one[:2] for one in got] == [one[:2] for one in found]
    for (_, _, start, _, hint), (_, _, wanted, _, remedy) in zip(got, found, strict=True):
        assert start == wanted
        assert remedy in hint


def test_several_kernels_and_code_around_them() -> None:
    text = dedent("""\
        BLOCK = 64

        def relu(v):
            return tile.maximum(v, zero)

        @kernel(tile=(BLOCK,))
        def a(x: f32[n], y: mut f32[n]):
            y[:] = relu(x[:])

        @kernel
        def b(x: f32[n], y: mut f32[n]):
            y[:] = w

        a(boom(), boom())
        """)
    assert [one[:3] for one in told(text)] == [("TSR-E101", 4, 28), ("TSR-E101", 12, 12)]
    # A function without a text is a mistake of no place in the cell: it is at the statement that calls it.
    user: dict[str, object] = {}
    exec("def f(v):\n    return v\n", user)
    assert told(f"{HEAD}    y[:] = f(1)\n", **user)[0][1:3] == (3, 5)


def test_options_of_the_decorator() -> None:
    assert told(HEAD.replace("@kernel", "@kernel(tiles=4)") + "    y[:] = x[:]\n")[0][:4] == ("TSR-E005", 1, 2, 17)
    assert told(HEAD.replace("@kernel", '@kernel(target="cdua")') + "    y[:] = x[:]\n")[0][1:3] == (1, 2)
    # What only running the cell tells is left alone.
    assert told(HEAD.replace("@kernel", "@kernel(tile=f())") + "    y[:] = x[:]\n") == []
    assert told(HEAD.replace("@kernel", "@kernel.autotune(BM=[32, 64])") + "    y[:] = x[:] * BM\n") == []


def test_kernels_whose_types_are_open_are_looked_through_for_names() -> None:
    text = "@kernel\ndef k(x, y: tensor[f32]):\n    z = tile.sum(x)\n    y[:] = z + xx + len(x)\n"
    assert told(text) == [("TSR-E101", 4, 16, 18, "did you mean 'x'?")]


def test_the_last_call_tells_types_that_annotations_leave_open() -> None:
    from tessera.api.source_module import compile_source  # noqa: PLC0415

    text = "@kernel(target='interpret')\ndef k(x, y):\n    y[:] = x[:]\n"
    module = compile_source(text)
    module.k(np.zeros(4, "f4"), np.zeros(4, "f4"))
    edited = text.replace("y[:] = x[:]", "y[:] = tile.dot(x, x)")
    assert told(edited) == []
    assert [one[0][:5] for one in told(edited, k=module.k)] == ["TSR-E"]


def test_a_made_up_extent_is_no_reason_for_a_mistake() -> None:
    text = "@kernel\ndef k(a: f32[m, k1], b: f32[k2, n], c: mut f32[m, n]):\n    c[:] = tile.dot(a[:], b[:])\n"
    assert told(text) == []
    assert [one[0] for one in told(text.replace("k1", "5").replace("k2", "7"))] == ["TSR-E202"]


def test_names_that_only_running_tells_are_left_alone() -> None:
    assert told("B = compute()\n" + HEAD + "    y[:] = x[:] * B\n") == []
    assert told("from somewhere import *\n" + HEAD + "    y[:] = x[:] * whatever\n") == []
    assert told("def outer(B):\n    @kernel\n    def k(y: mut f32[n]):\n        y[:] = B\n") == []


def test_lines_of_ipython_are_not_looked_at() -> None:
    assert told("%time 3 +\n!ls | (\n" + HEAD + "    y[:] = x[:]\n") == []


def test_what_a_name_stands_for_is_known_behind_a_mistake() -> None:
    checked: Checked = check(f"{HEAD}    a = gone\n    b = x[0]\n    y[0] = b\n", {})
    (built,) = checked.kernels
    assert built.extents == {1021: "n"}
    assert {str(getattr(b, "type", b)) for s, b in built.bindings.items() if (s.line, s.column) == (4, 5)} == {"f32"}


def test_time_is_bounded() -> None:
    checked = check(f"{HEAD}    y[:] = x[:]\n", {}, seconds=-1.0)
    assert (checked.findings, checked.complete) == ((), False)
