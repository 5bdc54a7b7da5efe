"""A cell's body runs like an ordinary cell."""

import inspect

import pytest

from support.shell import Shell
from tessera.core.errors.catalog import SyntaxMistake
from tessera_magics import execute

PUBLIC = {"mark": 7, "other": 8}


@pytest.fixture
def cells(shell: Shell) -> Shell:
    """A shell whose `%%tessera` only executes."""

    def tessera(line: str, body: str) -> None:
        __tracebackhide__ = True
        place = execute.place_of(shell, line, body)
        cell = execute.read_body(shell, body, place)
        execute.run(shell, cell, PUBLIC)

    shell.register_magic_function(tessera, "cell", "tessera")
    return shell


def run(shell: Shell, text: str) -> object:
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return shell.user_ns.get("_")


def test_the_last_expression_is_the_cells_result(cells: Shell) -> None:
    assert run(cells, "%%tessera\na = 20\na + 1") == 21
    assert cells.user_ns["a"] == 20


@pytest.mark.parametrize("ending", ["a + 1;", "a + 1;  # quiet", "b = 1"])
def test_a_semicolon_or_a_statement_displays_nothing(cells: Shell, ending: str) -> None:
    run(cells, "1000")
    assert run(cells, f"%%tessera\na = 20\n{ending}") == 1000


def test_a_traceback_points_at_the_users_own_line(cells: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    cells.run_cell("%%tessera --target cpu\n\ndef f(x):\n    return 1 / x\n\nf(0)", store_history=True)
    shown = capsys.readouterr().out
    number = cells.execution_count - 1
    assert f"Cell In[{number}], line 6" in shown
    assert f"Cell In[{number}], line 4, in f(x)" in shown
    assert "1 / x" in shown
    assert "ZeroDivisionError" in shown
    assert "execute.py" not in shown
    assert shown.index("skipping hidden") < shown.index("line 6")


def test_inspect_finds_the_source_of_what_a_cell_defines(cells: Shell) -> None:
    run(cells, "%%tessera\ndef f(x):\n    return x + 1\n")
    assert inspect.getsource(cells.user_ns["f"]) == "def f(x):\n    return x + 1\n"


def test_names_are_supplied_but_never_replaced(cells: Shell) -> None:
    cells.user_ns["other"] = "mine"
    assert run(cells, "%%tessera\n(mark, other)") == (7, "mine")
    assert "mark" not in cells.user_ns


def test_functions_of_the_cell_keep_seeing_the_names(cells: Shell) -> None:
    run(cells, "%%tessera\ndef late():\n    return mark")
    assert cells.user_ns["late"]() == 7
    assert "mark" not in cells.user_ns


def test_a_name_the_cell_defines_itself_wins(cells: Shell) -> None:
    assert run(cells, "%%tessera\nmark = 1\nmark") == 1


def test_tessera_syntax_is_read(cells: Shell) -> None:
    assert run(cells, "%%tessera\ndef f(y: mut f32[n]):\n    return 8_KiB\n\nsize = 2_KiB\nsize") == 2048


def test_magics_and_shell_commands_work_inside(cells: Shell, capfd: pytest.CaptureFixture[str]) -> None:
    run(cells, "%%tessera\nx = 2\n%precision 3\n!echo hello\nx")
    assert "hello" in capfd.readouterr().out


def test_a_syntax_error_is_reported_with_the_cells_line(cells: Shell) -> None:
    result = cells.run_cell("%%tessera\nx = 1\ny: mut f32[n = 2", store_history=True)
    error = result.error_in_exec
    assert isinstance(error, SyntaxMistake)
    assert error.span.line == 3
    assert f"Cell In[{cells.execution_count - 1}], line 3" in str(error)


def test_a_magic_called_from_code_works_too(cells: Shell) -> None:
    cells.run_cell_magic("tessera", "", "value = 5\n")
    assert cells.user_ns["value"] == 5


@pytest.mark.parametrize(("interactivity", "shown"), [("none", []), ("all", ["1", "2"]), ("last_expr", ["2"])])
def test_the_users_choice_of_what_to_display_is_kept(
    cells: Shell, capsys: pytest.CaptureFixture[str], interactivity: str, shown: list[str]
) -> None:
    cells.ast_node_interactivity = interactivity
    run(cells, "%%tessera\n1\n2")
    lines = [line.split(": ")[-1] for line in capsys.readouterr().out.splitlines() if line]
    assert lines == shown
