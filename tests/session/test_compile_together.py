"""Programs compiled at once: in order, equal ones once, and none left running when one fails or Ctrl-C comes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import dataclasses
import threading
from typing import Self

import numpy as np
import pytest

from tessera import graph, op
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Program
from tessera.core.targets import Target
from tessera.session import compile_together as module
from tessera.session.compile_together import compile_together
from tessera.session.compiled import Compiled
from tessera.session.session import Session, resolve_target, session

TARGET = resolve_target("cpu")


def programs() -> list[Program]:
    """Several programs: sums and products of different lengths."""
    found: list[Program] = []
    for size in (3, 40, 7):
        made = graph.module("f")(lambda x: op.softmax(op.matmul(x, x)))
        kernels = made.executable_for(np.ones((size, size), np.float32)).kernels(resolve_target("interpret"))
        found += [kernel.lowered.program for kernel in kernels]
    return found


def test_results_come_in_order_and_equal_programs_are_one():
    wanted = programs()
    found = compile_together(session(), [*wanted, *wanted], TARGET)
    assert [each.program.name for each in found] == [each.name for each in (*wanted, *wanted)]
    assert all(a is b for a, b in zip(found, found[len(wanted) :], strict=False))
    for made, program in zip(found, wanted, strict=False):
        assert made.artifact.bindings[0].type == program.parameters[0].value.type
    assert compile_together(session(), [], TARGET) == ()


class Slow(Session):
    """Compiles nothing: programs wait, and one fails."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing, self.running, self.stopped = failing, 0, 0
        self._counts = threading.Lock()

    def compile(self, program: Program, target: Target, *, observe: bool = False, exact: bool = False) -> Compiled:
        from tessera.core.base.interrupts import raise_if_stopped  # noqa: PLC0415 - this alone needs it

        if program.name == self.failing:
            raise TesseraError(f"{program.name} fails")
        with self._counts:
            self.running += 1
        try:
            while True:
                raise_if_stopped()
        except KeyboardInterrupt:
            self.stopped += 1
            raise
        finally:
            with self._counts:
                self.running -= 1


def named(*names: str) -> list[Program]:
    program = programs()[0]
    return [dataclasses.replace(program, name=name) for name in names]


def test_a_mistake_ends_the_others():
    slow = Slow("bad")
    with pytest.raises(TesseraError, match="bad fails"):
        compile_together(slow, named("bad", "a", "b"), TARGET)
    assert slow.running == 0


def test_ctrl_c_ends_all_of_them(monkeypatch: pytest.MonkeyPatch):
    slow = Slow("none")

    class Deferral:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def deliver(self) -> None:
            if slow.running:
                raise KeyboardInterrupt

    monkeypatch.setattr(module, "deferred_interrupts", Deferral)
    with pytest.raises(KeyboardInterrupt):
        compile_together(slow, named("a", "b"), TARGET)
    assert slow.running == 0
    assert slow.stopped >= 1


def test_the_longest_programs_begin_first():
    short, *_, long = sorted(programs(), key=lambda each: sum(1 for _ in each.body.walk()))
    assert module._longest_first([short, long, short]) == [1, 0, 2]  # pyright: ignore[reportPrivateUsage]
