"""The names of a cell, without running it."""

import ast
from types import FunctionType

import numpy as np
import pytest

from tessera.core.base.dtypes import f16
from tessera.core.base.source import Source
from tessera.frontend.base.observer import UNKNOWN
from tessera.frontend.syntax.parse import parse
from tessera.frontend.syntax.source_file import read_cell
from tessera_magics.language.static_names import StaticNames, evaluate, static_names


class Trap:
    """Anything but naming it runs code."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")


def names(text: str, **user: object) -> StaticNames:
    return static_names(read_cell(text, "<cell>"), parse(Source("<cell>", text)), user)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("64", 64), ("-3", -3), ("2 * 32 + 1", 65), ("7 // 2", 3), ("1 / 0", UNKNOWN), ("8_KiB", 8192), ("'a'", "a"),
        ("(1, 2)", (1, 2)), ("[B, 2 * B]", [32, 64]), ("dict(BM=[64])", {"BM": [64]}), ("{'BM': B}", {"BM": 32}),
        ("f16", f16), ("open('x')", UNKNOWN), ("2 ** 9999999", UNKNOWN), ("absent", UNKNOWN), ("(1, f())", UNKNOWN),
        ("9223372036854775807 * 9223372036854775807", UNKNOWN),
    ],
)  # fmt: skip
def test_constant_expressions(written: str, value: object) -> None:
    tree = parse(Source("<cell>", f"({written})"))
    node = tree.body[0]
    assert isinstance(node, ast.Expr)
    assert evaluate(node.value, {"B": 32}) == value


def test_what_a_cell_sets() -> None:
    found = names(
        "A = 3\nB: int = A + 1\nC = f()\nfor D in E: pass\nimport numpy as np\nfrom math import pi, nothing\n"
    )
    assert (found["A"], found["B"], found["np"]) == (3, 4, np)
    assert [found[name] for name in ("C", "D", "nothing")] == [UNKNOWN] * 3
    assert found["pi"] == pytest.approx(3.14159265)
    assert "E" not in found


def test_a_function_is_never_called() -> None:
    function = names("def f(v, w=2 * 3, *, u=boom()):\n    raise AssertionError\n")["f"]
    assert isinstance(function, FunctionType)
    assert function.__defaults__ == (6,)
    assert function.__kwdefaults__ == {"u": UNKNOWN}
    assert names("@decorated\ndef f(v):\n    return v\n")["f"] is UNKNOWN


def test_the_users_values_are_used_where_they_run_nothing() -> None:
    array = np.zeros(3)
    found = names("B = f()\n", A=3, B=4, x=array, trap=Trap(), many=[1, Trap()])
    assert (found["A"], found["B"], found["x"]) == (3, 4, array)
    assert found["trap"] is UNKNOWN
    assert found["many"] is UNKNOWN
    assert "absent" not in found


def test_a_function_of_an_earlier_cell_reads_this_ones_names() -> None:
    user: dict[str, object] = {"trap": Trap()}
    exec("def f(v):\n    return v * B\n", user)
    text = "B = 7\n"
    found = static_names(read_cell(text, "<cell>"), parse(Source("<cell>", text)), user)
    function = found["f"]
    assert isinstance(function, FunctionType)
    assert function.__globals__["B"] == 7
    assert function.__globals__["trap"] is UNKNOWN


def test_a_star_leaves_every_other_name_open() -> None:
    found = names("from somewhere import *\nA = 1\n")
    assert (found["A"], found["whatever"]) == (1, UNKNOWN)
    assert "tile" not in found
    assert names("A = 1\n").with_unknown({"A", "b"})["b"] is UNKNOWN
