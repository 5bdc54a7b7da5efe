"""Cells of Tessera syntax: where names land, which are visible, what errors show."""

import builtins
import gc
import linecache
import traceback
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import pytest

import tessera
from tessera.api.source_module import compile_source, run_cell
from tessera.core.errors.catalog import SyntaxMistake, UndefinedName
from tessera.session.session import session

CELL = """
half = 0.5

@kernel tile[(128,)] shared(8_KiB)
def first(x: f32[n], y: mut f32[n]):
    i = launch.thread_id()
    if i < n:
        y[i] = half * x[i]

@kernel
def second(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = x[i] + 1.0

def run(x, y):
    launch.grid(blocks=(ceil_div(len(x), 128),), threads=(128,))(first)(x, y)
"""
X = np.arange(200, dtype=np.float32)


def test_everything_lands_in_the_namespace_and_nothing_else():
    namespace: dict[str, object] = {}
    ran = run_cell(CELL, namespace, name="cell-1")
    assert set(namespace) == {"half", "first", "second", "run"}
    assert list(ran.kernels) == ["first", "second"]
    assert ran.kernels["first"].options.tile == (128,)
    assert ran.kernels["first"].options.shared == 8192


def test_functions_of_the_cell_see_the_language():
    namespace: dict[str, Any] = {}  # what a cell defines
    run_cell(CELL, namespace, name="cell-2")
    y = np.zeros_like(X)
    namespace["run"](X, y)
    np.testing.assert_array_equal(y, X / 2)


def test_the_users_names_go_first():
    namespace: dict[str, Any] = {"ceil_div": lambda a, b: 1}  # what a cell defines
    run_cell(CELL, namespace, name="cell-3")
    y = np.zeros_like(X)
    namespace["run"](X, y)
    np.testing.assert_array_equal(y[:128], X[:128] / 2)
    assert not y[128:].any()


def test_the_namespace_keeps_its_builtins():
    namespace: dict[str, object] = {"__builtins__": builtins}
    run_cell("a = 1", namespace, name="cell-4")
    assert namespace["__builtins__"] is builtins
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", namespace, name="cell-5")
    assert namespace["__builtins__"] is builtins


def test_a_kernel_defined_before_is_not_listed_again():
    namespace: dict[str, object] = {}
    run_cell(CELL, namespace, name="cell-6")
    assert run_cell("x = 1", namespace, name="cell-7").kernels == {}


def test_tracebacks_show_the_users_lines():
    with pytest.raises(ZeroDivisionError) as caught:
        run_cell("a = 1\n\nb = a / 0  # here\n", {}, name="cell-8", first_line=10)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.line) == ("cell-8", 12, "b = a / 0  # here")


def test_syntax_mistakes():
    with pytest.raises(SyntaxMistake, match="Cell In"):
        run_cell("@kernel\ndef f(x: f32[n]:\n    pass\n", {}, name="cell-9", label="Cell In[9]")


def test_compile_source_makes_a_module():
    module = compile_source(CELL)
    y = np.zeros_like(X)
    module.second(X, y)
    np.testing.assert_array_equal(y, X + 1)
    assert module.half == 0.5
    assert tessera.compile_source is compile_source


def test_errors_name_the_file_given():
    module = compile_source("@kernel\ndef f(x: mut f32[n]):\n    x[0] = alfa\n", "kernels.tsr")
    with pytest.raises(UndefinedName) as caught:
        module.f(np.zeros(3, np.float32))
    assert "--> kernels.tsr, line 3, column 12" in str(caught.value)


def counted() -> Counter[str]:
    """The objects that are alive, by type."""
    gc.collect()
    return Counter(type(thing).__name__ for thing in gc.get_objects())


@pytest.mark.parametrize(("target", "before", "times"), [("interpret", 20, 200), ("cpu", 12, 12)])
def test_definitions_that_were_replaced_are_let_go(
    target: str, before: int, times: int, monkeypatch: pytest.MonkeyPatch
):
    """In cells of one name each, as in a notebook; what is remembered on purpose is bounded."""
    monkeypatch.setattr("tessera.session.session._REMEMBERED", 4)
    monkeypatch.setattr("tessera.runtime.launch.object_code._KEPT", 4)
    monkeypatch.setattr("tessera.session.varying_extents._FAMILIES", 4)
    monkeypatch.setattr(session(), "_remembered", OrderedDict())
    monkeypatch.setattr("tessera.runtime.launch.object_code._loaded", OrderedDict())
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    namespace: dict[str, Any] = {"np": np}  # and the kernels that cells define

    def define(number: int) -> None:
        text = f"@kernel(target={target!r})\ndef k(x: f32[n], y: mut f32[n]):\n    y[:] = helper(x[:]) * {number}.0\n"
        text += "\ndef helper(a):\n    return a + 1.0\n"
        run_cell(text, namespace, name=f"<definition {target} {number}>")
        namespace["k"](x, y)
        assert y[7] == 8.0 * number

    for number in range(before):
        define(number)
    earlier = counted()
    for number in range(before, before + times):
        define(number)
    grown = {name: count for name, count in (counted() - earlier).items() if count >= times}  # caches may grow by a few
    assert grown == {}
    assert sum(name.startswith(f"<definition {target}") for name in linecache.cache) == 1
