"""MLIR's diagnostics as errors with a place."""

import pytest

from support.mlir import function, parse
from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.lowering.base.diagnostics import crash

pytestmark = pytest.mark.usefixtures("mlir")


def refused(text: str) -> CompilerCrash:
    with pytest.raises(ir.MLIRError) as caught:
        parse(text)
    return crash(caught.value, "a-pass")


def test_place_and_words():
    write = '"tessera.write"(%a, %s) {cache = "", in_bounds = array<i1>} : (i32, i32) -> () loc("cell.py":6:2)'
    error = refused(function(f"%s = arith.addi %a, %a : i32\n{write}\nreturn", "%a: i32"))
    assert error.message == "a-pass: write: the memory must be an array or a shared buffer"
    assert (error.span.file, error.span.line, error.span.column) == ("cell.py", 6, 2)


def test_notes_are_kept():
    error = refused(function("%s = arith.addi %a, %b : i32\nreturn", "%a: i32, %b: i64"))
    assert "expects different type than prior uses" in error.message
    assert [note.message for note in error.notes] == ["prior use here"]


class Bare(ir.MLIRError):
    """An error that MLIR says nothing else of."""

    @property
    def error_diagnostics(self) -> list[ir.DiagnosticInfo]:
        return []


def test_an_error_without_diagnostics():
    error = crash(Bare("nothing known"), "a-pass")
    assert error.message == "a-pass: nothing known"
    assert error.span == NOWHERE
