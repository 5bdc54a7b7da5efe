"""Running passes: order, checks, observers."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from support.mlir import function, parse
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.passes import Observer, Pass, run_passes, run_upstream

pytestmark = pytest.mark.usefixtures("mlir")

BODY = '%r = "tessera.reduce"(%t) {kind = "sum"} : (tensor<4xf32>) -> f32 loc("cell.py":5:1)\nreturn'


@dataclass(frozen=True, slots=True)
class Note(Pass):
    """Writes its name on the module."""

    name: ClassVar[str] = "test-note"
    text: str = "here"

    def run(self, module: ir.Module) -> None:
        notes = (
            list(ir.ArrayAttr(module.operation.attributes["test.notes"]))
            if "test.notes" in module.operation.attributes
            else []
        )
        module.operation.attributes["test.notes"] = ir.ArrayAttr.get([*notes, ir.StringAttr.get(self.text)])


@dataclass(frozen=True, slots=True)
class Break(Pass):
    """Leaves IR that does not verify."""

    name: ClassVar[str] = "test-break"

    def run(self, module: ir.Module) -> None:
        (op,) = operations(module, "tessera.reduce")
        op.attributes["kind"] = ir.StringAttr.get("mean")


@dataclass(frozen=True, slots=True)
class Fail(Pass):
    """Asks MLIR for something it refuses."""

    name: ClassVar[str] = "test-fail"

    def run(self, module: ir.Module) -> None:
        run_upstream("builtin.module(convert-vector-to-llvm{nothing=1})", module)


@pytest.fixture
def module() -> ir.Module:
    return parse(function(BODY, "%t: tensor<4xf32>"))


def test_in_order_with_times(module: ir.Module):
    seconds = run_passes([Note(text="a"), Note(text="b")], module)
    assert str(module.operation.attributes["test.notes"]) == '["a", "b"]'
    assert [name for name, _ in seconds] == ["test-note", "test-note"]
    assert all(spent >= 0 for _, spent in seconds)


def test_an_observer_is_called_after_each_pass(module: ir.Module):
    seen: list[tuple[str, float, str]] = []

    def observe(name: str, seconds: float) -> None:
        seen.append((name, seconds, str(module.operation.attributes["test.notes"])))

    ran = run_passes([Note(text="a"), Note(text="b")], module, observe)
    assert [(name, notes) for name, _, notes in seen] == [("test-note", '["a"]'), ("test-note", '["a", "b"]')]
    assert ran == tuple((name, seconds) for name, seconds, _ in seen)


def ignore(_name: str, _seconds: float) -> None:
    """Observe nothing."""


@pytest.mark.parametrize("observe", [None, ignore])
def test_broken_ir_is_our_fault_and_names_the_place(module: ir.Module, observe: Observer | None):
    with pytest.raises(CompilerCrash, match="reduce: kind must be one of sum, max, min") as caught:
        run_passes([Break(), Note()], module, observe)
    assert (caught.value.span.file, caught.value.span.line) == ("cell.py", 5)
    stage = "test-break" if observe else "test-note"
    assert caught.value.message.startswith(f"{stage}: ")


def test_the_next_run_works_after_a_broken_one(module: ir.Module):
    with pytest.raises(CompilerCrash):
        run_passes([Break()], module)
    run_passes([Note()], parse(function(BODY, "%t: tensor<4xf32>")))


def test_a_pipeline_that_does_not_exist(module: ir.Module):
    with pytest.raises(ValueError, match="nothing"):
        run_passes([Fail()], module)


def test_passes_are_values():
    assert Note(text="a") == Note(text="a")
    assert hash(Note()) == hash(Note())
