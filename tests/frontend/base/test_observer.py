"""Builds that are followed from outside."""

import ast

import pytest

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import TypeMismatch, UndefinedName
from tessera.core.program.program import Program, Value
from tessera.core.program.types import Array
from tessera.frontend.base.observer import UNKNOWN, Observer, OutOfTime
from tessera.frontend.build.build import specialise
from tessera.frontend.syntax.parse import parse
from tessera.frontend.syntax.source_file import read_cell

HEAD = "@kernel\ndef k(x: f32[n], y: mut f32[n]):\n"


def observed(body: str, names: dict[str, object] | None = None, seconds: float = 10.0) -> tuple[Observer, Program]:
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    kernel = read_cell(text, "<test>").kernels[0]
    observer = Observer(seconds)
    program = specialise(kernel, (array(f32, 64), array(f32, 64)), names or {}, observer=observer)
    return observer, program


def places(observer: Observer) -> list[tuple[type, int, int]]:
    return [(type(m.error), m.error.span.line, m.error.span.column) for m in observer.mistakes]


def test_every_mistake_is_told_and_the_rest_is_built() -> None:
    observer, program = observed("a = missing\nb = a + 1\ny[:] = x[:]\nc = absent + b\nd = gone")
    assert places(observer) == [(UndefinedName, 3, 9), (UndefinedName, 6, 9), (UndefinedName, 7, 9)]
    assert "store" in {op.opcode for op in program.body.walk()}


def test_what_follows_from_a_mistake_is_not_told() -> None:
    observer, _ = observed(
        "total = 0.0\nfor i in range(4):\n    total = gone\nif total > 1.0:\n    y[:] = 'text'\ny[:] = total"
    )
    assert places(observer) == [(UndefinedName, 5, 17)]


def test_a_loop_that_is_built_several_times_has_its_mistake_there() -> None:
    observer, _ = observed("total = 0\nfor i in range(n):\n    total = total + x[i]\n    y[i] = nothing")
    assert set(places(observer)) == {(UndefinedName, 6, 16)}


def test_a_mistake_in_a_function_points_at_its_own_text_and_at_the_call() -> None:
    text = "def double(v):\n    return v + lost\n\n" + HEAD + "    y[:] = double(x[:])\n    y[:] = gone\n"
    cell = read_cell(text, "<cell>")
    names: dict[str, object] = {}
    tree = parse(Source("<cell>", text))
    assert isinstance(tree.body[0], ast.FunctionDef)
    exec(cell.compile(ast.Module([cell.tree.body[0]], [])), names)
    observer = Observer(10.0)
    specialise(cell.kernels[0], (array(f32, 64), array(f32, 64)), names, observer=observer)
    assert [(m.error.span.line, m.statement.line) for m in observer.mistakes] == [(2, 6), (7, 7)]


def test_names_stand_for_what_they_did_at_each_place() -> None:
    observer, _ = observed("a = 1\na = x[0]\ny[0] = a")
    seen = {(span.line, span.column): binding for span, binding in observer.bindings.items()}
    assert seen[3, 5] == 1
    assert isinstance(seen[4, 5], Value)
    assert seen[5, 12] is seen[4, 5]
    parameter = seen[2, 7]
    assert isinstance(parameter, Value)
    assert parameter.type == Array(f32, ("n",))


def test_what_is_unknown_is_passed_over_in_silence() -> None:
    observer, _ = observed(
        "a = mystery\nb = a + 1\nfor i in range(b):\n    y[i] = 1.0\ny[0] = gone", {"mystery": UNKNOWN}
    )
    assert places(observer) == [(UndefinedName, 7, 12)]
    assert observer.troubles > 1


def test_without_an_observer_the_first_mistake_is_raised() -> None:
    kernel = read_cell(HEAD + "    y = 1\n    a = gone\n", "<test>").kernels[0]
    with pytest.raises(TypeMismatch):
        specialise(kernel, (array(f32, 64), array(f32, 64)), {})


def test_time_is_bounded() -> None:
    with pytest.raises(OutOfTime):
        observed("y[:] = x[:]", seconds=-1.0)


def test_an_observed_build_is_the_same_program() -> None:
    body = "total = 0.0\nfor i in range(n):\n    if i > 3:\n        total += x[i]\ny[:] = total"
    observer, program = observed(body)
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    plain = build(text, array(f32, 64), array(f32, 64))
    assert observer.mistakes == []
    assert [op.opcode for op in program.body.walk()] == [op.opcode for op in plain.body.walk()]


def test_a_statement_left_out_counts_whether_or_not_it_is_told() -> None:
    observer = Observer()
    span = Span("<test>", 1, 1, 1, 2)
    observer.leave_out(UndefinedName("nothing is named 'a'", span), span, 0)
    observer.leave_out(UndefinedName("nothing is named 'b'", span), span, 0)  # around the first one
    assert [m.error.message for m in observer.mistakes] == ["nothing is named 'a'"]
    assert observer.troubles == 2
    observer.restart()
    assert (observer.mistakes, observer.troubles) == ([], 0)
