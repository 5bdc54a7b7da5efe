"""Cells, files and functions become kernel sources and code that runs, with the user's own positions."""

import ast
import functools
import gc
import inspect
import linecache
import subprocess
import sys
import textwrap
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pytest

from support.documents import BLOCKS, KERNELS
from tessera.core.errors.catalog import NoSource, SyntaxMistake
from tessera.core.program.program import Attribute
from tessera.frontend.syntax.source_file import (
    AnnotationTransformer,
    Cell,
    from_function,
    is_kernel,
    read_cell,
    read_file,
    source_for,
    to_plain_python,
)

if TYPE_CHECKING:
    from support.shell import Shell

F = TypeVar("F", bound=Callable[..., object])

CELL = textwrap.dedent(
    """\
    import math
    größe = 3; @kernel

    @kernel tile[(128,)] shared(8_KiB)
    def group_sum(x: f32[n], out: mut f32[grid_groups]):  # ümlaut
        smem = tshared.alloc[f32](128)
        é = "日本"; cp_async.shared.global(smem, x)

    def host(a: undefined_name, *b: 8_KiB, **c: nothing[n]) -> nowhere:
        return 8_KiB

    class Model:
        @tessera.kernel.autotune(space=dict(a=[1]))
        def method(self, x): ...
    """
).replace("; @kernel", "")


def run(cell: Cell, **names: object) -> dict[str, Any]:  # whatever the cell defines
    """Execute a cell's code with `names` defined."""
    namespace: dict[str, Any] = dict(names)  # exec takes no other
    exec(cell.compile(), namespace)
    return namespace


class Decorator:
    """A stand-in for the decorator that keeps the function as it is."""

    @property
    def autotune(self) -> "Decorator":
        return self

    @overload
    def __call__(self, function: F) -> F: ...

    @overload
    def __call__(self, function: None = None, **options: Attribute) -> Callable[[F], F]: ...

    def __call__(self, function: F | None = None, **options: Attribute) -> F | Callable[[F], F]:
        def keep(wrapped: F) -> F:
            wrapped.__dict__["options"] = options
            return wrapped

        return keep if function is None else keep(function)


kernel = Decorator()


class tessera:
    """A stand-in for the package."""

    kernel = kernel


def test_a_cell_gives_its_kernels_in_order():
    cell = read_cell(CELL, "<cell 1>", label="Cell In[1]")
    assert [k.name for k in cell.kernels] == ["group_sum", "method"]
    first = cell.kernels[0]
    assert (first.source.name, first.source.first_line, first.source.label) == ("<cell 1>", 4, "Cell In[1]")
    assert first.source.text == "\n".join(CELL.split("\n")[3:7])
    assert first.function.decorator_list == []
    assert first.function.lineno == 5
    out = first.function.args.args[1].annotation
    assert out is not None
    assert ast.unparse(out) == "mut[f32[grid_groups]]"
    assert first.source.line(out.lineno)[out.col_offset : out.end_col_offset] == "mut f32[grid_groups]"
    call = first.function.body[2]
    assert first.source.line(call.lineno)[call.col_offset :] == "cp_async.shared.global(smem, x)"


def test_the_code_of_a_cell_runs_without_evaluating_annotations():
    names = run(read_cell(CELL, "<cell 2>"), kernel=kernel, tessera=tessera)
    assert names["host"](1) == 8192
    assert names["host"].__annotations__ == {
        "a": "undefined_name",
        "b": "8192",
        "c": "nothing[n]",
        "return": "nowhere",
    }
    assert names["group_sum"].options == {"tile": (128,), "shared": 8192}
    assert names["group_sum"].__annotations__["out"] == "mut[f32[grid_groups]]"


def test_functions_find_their_source():
    cell = read_cell(CELL, "<cell 3>", first_line=2)
    names = run(cell, kernel=kernel, tessera=tessera)
    assert source_for(names["group_sum"]) is cell.kernels[0]
    assert source_for(names["Model"].method) is cell.kernels[1]
    assert source_for(names["host"]).function.lineno == 10
    assert cell.kernels[0].function.lineno == 6


def test_reading_again_replaces_what_was_there():
    read_cell(CELL, "<cell 4>")
    cell = read_cell("@kernel\ndef k(x): ...", "<cell 4>")
    assert source_for(run(cell, kernel=kernel)["k"]) is cell.kernels[0]


def test_a_wrapped_function_is_found():
    cell = read_cell("@kernel\n@wrap\ndef k(x): ...", "<cell 5>")
    names = run(cell, kernel=kernel, wrap=lambda f: functools.wraps(f)(functools.partial(f)))
    assert source_for(names["k"]) is cell.kernels[0]


def test_tracebacks_show_the_users_lines():
    text = "x = 8_KiB\ndef f(y: mut f32[n]):\n    é = '日本'; return 1 // (x - 8_KiB)\nf(0)"
    with pytest.raises(ZeroDivisionError) as caught:
        run(read_cell(text, "<cell 6>", first_line=2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [(f.lineno, f.line) for f in frames[-2:]] == [(5, "f(0)"), (4, text.split("\n")[2].strip())]
    last = frames[-1]
    assert text.split("\n")[2].encode()[last.colno : last.end_colno].decode() == "1 // (x - 8_KiB)"
    linecache.checkcache("<cell 6>")
    assert linecache.getline("<cell 6>", 2) == "x = 8_KiB\n"
    assert linecache.getline("<cell 6>", 1) == "\n"


def test_mistakes_of_the_compiler_proper():
    with pytest.raises(SyntaxMistake) as caught:
        read_cell("é = 1\n日本 = 'é'; return 5", "<cell 7>")
    assert (caught.value.span.line, caught.value.span.column) == (2, 11)
    assert caught.value.message == "'return' outside function"
    with pytest.raises(SyntaxMistake, match="duplicate argument"):
        read_cell("@kernel\ndef k(x: mut f32, x: f32): ...", "<cell 7>")


def test_pythons_warnings_come_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_cell("x = 1\ny = '\\d'", "<cell 10>", first_line=5)
    assert [(w.filename, w.lineno) for w in caught] == [("<cell 10>", 6)]


def test_a_kernel_is_no_coroutine():
    with pytest.raises(SyntaxMistake, match="a kernel is no coroutine") as caught:
        read_cell("@kernel\nasync def k(x): ...", "<cell 8>")
    assert caught.value.span.line == 2
    read_cell("async def host(x): ...", "<cell 8>")


def test_a_mistake_leaves_nothing_behind():
    with pytest.raises(SyntaxMistake):
        read_cell("def k(:", "<cell 9>")
    assert "<cell 9>" not in linecache.cache


@pytest.mark.parametrize("name", BLOCKS)
def test_the_documents_can_be_read(name: str):
    cell = read_cell(BLOCKS[name], f"<{name}>")
    assert bool(cell.kernels) == (name in KERNELS)


def test_files(tmp_path: Path):
    path = tmp_path / "scale.tsr"
    path.write_bytes("\ufeff@kernel\r\ndef k(y: mut f32[n]):\r\n    é = 1\r\n".encode())
    cell = read_file(path)
    assert (cell.source.label, cell.kernels[0].source.first_line) == ("scale.tsr", 1)
    assert cell.kernels[0].source.line(3) == "    é = 1"
    path.write_bytes(b"x = '\xff'")
    with pytest.raises(SyntaxMistake, match="not UTF-8"):
        read_file(path)


# Plain Python ---------------------------------------------------------------------------------------------------


@kernel()  # two lines of decorators,
@kernel  # which belong to the definition
def decorated(x: "list[float]", é: str = "日本") -> "list[float]":
    """Text."""
    return x  # comment


def test_a_function_of_a_file():
    source = from_function(decorated)
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    first = lines.index("@kernel()  # two lines of decorators,") + 1
    assert (source.name, source.source.first_line, source.source.name) == ("decorated", first, __file__)
    assert source.source.text == "\n".join(lines[first - 1 : first + 4])
    assert source.function.decorator_list == []
    assert source.function.lineno == first + 2
    default = source.function.args.defaults[0]
    assert source.source.line(default.lineno)[default.col_offset : default.end_col_offset] == '"日本"'


def test_nested_functions_keep_their_columns():
    def inner(x: np.ndarray):
        text = """
unindented"""
        return (x,
  text)  # fmt: skip

    source = from_function(inner)
    assert source.function.col_offset == 4
    assert source.source.text.endswith("  text)  # fmt: skip")
    last = source.function.body[-1]
    assert (source.source.line(last.lineno), last.end_col_offset) == ("        return (x,", 7)


def test_cells_of_ipython_are_labelled(ipython: "Shell"):
    ipython.run_cell("def plain_kernel(x):\n    return x")
    source = from_function(ipython.user_ns["plain_kernel"])
    assert source.source.label == "Cell In[1]"
    assert source.source.text == "def plain_kernel(x):\n    return x"


@pytest.fixture
def ipython() -> Iterator["Shell"]:
    from support import shell  # noqa: PLC0415 - IPython takes half a second, for two tests

    yield shell.start()
    shell.end()


def test_annotations_of_kernels_in_ordinary_cells(ipython: "Shell"):
    ipython.ast_transformers.append(AnnotationTransformer())
    ipython.user_ns["kernel"] = kernel
    ipython.run_cell("def outer():\n    @kernel(tile=4)\n    def k(x: f32[n], y: 'mut[f32]') -> n: ...\n    return k")
    function = ipython.user_ns["outer"]()
    assert function.__annotations__ == {"x": "f32[n]", "y": "mut[f32]", "return": "n"}
    annotation = source_for(function).function.args.args[0].annotation
    assert annotation is not None
    assert ast.unparse(annotation) == "f32[n]"
    ipython.run_cell("def host(x: int): ...")
    assert ipython.user_ns["host"].__annotations__ == {"x": int}


@pytest.mark.parametrize("thing", [len, lambda x: x, functools.partial(print), 3])
def test_no_source_for_what_no_def_made(thing: Callable[..., object] | int):
    with pytest.raises(NoSource, match="is not a function made by def"):
        source_for(thing)  # pyright: ignore[reportArgumentType] - 3 is no function


def test_no_source_for_code_without_text():
    namespace = {}
    exec("def k(x): ...", namespace)
    with pytest.raises(NoSource, match="the text of k is not to be had") as caught:
        from_function(namespace["k"])
    assert "tessera.compile_source" in caught.value.hint


def test_no_source_for_an_edited_file(tmp_path: Path):
    path = tmp_path / "module_that_changes.py"
    path.write_text("def k(x): ...\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("\n\ndef k(x): ...\n")
    with pytest.raises(NoSource, match="edited since"):
        from_function(namespace["k"])


def test_no_source_for_coroutines():
    async def k(x: object): ...

    with pytest.raises(NoSource, match="coroutine"):
        from_function(k)


@pytest.mark.parametrize(
    ("decorators", "expected"),
    [
        ("@kernel", True),
        ("@kernel()", True),
        ("@kernel.autotune(space={})", True),
        ("@a\n@tessera.kernel(tile=4)", True),
        ("@jit", False),
        ("@f(kernel)", False),
        ("@kernels[0]", False),
        ("", False),
    ],
)
def test_what_is_a_kernel(decorators: str, expected: bool):
    definition = ast.parse(f"{decorators}\ndef f(): ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert is_kernel(definition) is expected


def test_plain_spelling():
    assert to_plain_python("@kernel tile[4] shared(8_KiB)\ndef k(y: mut f32[n]): ...") == (
        "@kernel(tile=4, shared=8 * KiB)\ndef k(y: mut[f32[n]]):\n    ..."
    )


def test_reading_needs_neither_ipython_nor_mlir():
    code = (
        "import sys, tessera.frontend.syntax.source_file; print({'IPython', 'torch_mlir', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root())
    assert done.stdout.strip() == "set()"


def _root() -> Path:
    return Path(inspect.getfile(read_cell)).parents[2]


def test_a_cells_text_lives_as_long_as_its_functions():
    cell = read_cell("def f(a):\n    def inner(): return a\n    return inner\n", "<lasting>")
    text = weakref.ref(cell.text)
    inner = run(cell)["f"](1)
    del cell
    gc.collect()
    assert source_for(inner).name == "inner"
    assert linecache.getline("<lasting>", 2) == "    def inner(): return a\n"
    del inner
    gc.collect()
    assert text() is None
    assert linecache.getline("<lasting>", 2) == ""


def test_a_later_cell_keeps_the_name_it_shares():
    first = run(read_cell("def f(): return 1", "<shared>"))
    second = run(read_cell("def f(): return 2", "<shared>"))
    assert source_for(first["f"]).source.text == "def f(): return 1"
    del first
    gc.collect()
    assert linecache.getline("<shared>", 1) == "def f(): return 2\n"
    assert second["f"]() == 2


def test_a_part_of_a_cell_is_compiled_like_the_whole(monkeypatch: pytest.MonkeyPatch):
    shown: list[object] = []
    monkeypatch.setattr(sys, "displayhook", shown.append)  # Python's own would keep `_` among the builtins
    cell = read_cell("def f(): return 1\nf()", "<parts>")
    namespace: dict[str, Any] = {}  # what the cell defines
    exec(cell.compile(ast.Module(cell.tree.body[:1], [])), namespace)
    assert source_for(namespace["f"]).name == "f"
    exec(cell.compile(ast.Interactive([cell.tree.body[1]]), "single"), namespace)
    assert shown == [1]
