"""Calls between launches: results of a routine become arrays of the caller's library, in C order."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import WrongResult
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import UNKNOWN_SOURCE, Node, Routine, Tensor, Value
from tessera.core.program.program import Attribute
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.graphs.execution.frames import Frame, Memory, Workspace
from tessera.graphs.execution.host_steps import RoutineStep, placed
from tessera.graphs.execution.supply import LibrarySupply
from tessera.runtime.memory.operands import Operand, operand

NOTHING = Plan(GraphBuilder().finish("nothing", [], []), (), {})
fresh = Workspace(Frame(NOTHING, LibrarySupply.of(operand(np.empty(0, np.float32), "x"))))


def step(routine: Routine, used: tuple[bool, ...]) -> tuple[RoutineStep, Memory, tuple[Value, ...]]:
    x = Value(Tensor(f32, (2, 3)))
    results = tuple(Value(x.type) for _ in used)
    outputs = tuple(value for value, each in zip(results, used, strict=True) if each)
    node = Node("call", (x,), results, {"by": 3}, routine)
    group = Group(0, CALL, (node,), (x,), outputs, (), {}, {}, {})
    return RoutineStep(group, UNKNOWN_SOURCE), {x: operand(np.ones((2, 3), np.float32), "x")}, results


def test_results_that_nobody_reads_are_dropped():
    routine = Routine("parts", run=lambda arrays, options: [arrays[0], np.asarray(arrays[0]) * options["by"]])  # pyright: ignore[reportOperatorIssue]
    made, memory, (first, second) = step(routine, (False, True))
    made.run(memory, fresh)
    assert first not in memory
    np.testing.assert_array_equal(memory[second].view, np.full((2, 3), 3, np.float32))


def test_another_type_than_declared_is_refused():
    made, memory, _ = step(Routine("rounds", run=lambda arrays, _: [np.zeros((2, 3))]), (True,))
    with pytest.raises(WrongResult, match=r"rounds returns f64\[2, 3\], and declares f32\[2, 3\]"):
        made.run(memory, fresh)


def test_results_in_another_order_are_copied():
    turned = operand(np.arange(6, dtype=np.float32).reshape(2, 3).T, "x")
    place = operand(np.empty((3, 2), np.float32), "out")
    assert placed(turned, place, "f") is place
    np.testing.assert_array_equal(place.view, turned.view)


def test_results_in_order_are_taken_as_they_are():
    """Memory that a routine allocated is as good as any other: no arena has it."""
    given = np.ones((2, 3), np.float32)
    for made, same in ((given, True), (np.asfortranarray(given), False)):
        ready, memory, (result,) = step(Routine("f", run=lambda arrays, _, made=made: [made]), (True,))
        ready.run(memory, fresh)
        assert (memory[result].value is made) == same
        np.testing.assert_array_equal(memory[result].view, given)


def test_arrays_of_another_library_are_copied():
    torch = pytest.importorskip("torch")
    place = operand(torch.zeros(3), "out")
    got = placed(operand(np.ones(3, np.float32), "x"), place, "f")
    assert isinstance(got.value, torch.Tensor)
    np.testing.assert_array_equal(got.view, np.ones(3))


def test_a_routine_can_fill_its_results_where_they_are_to_lie():
    def fill(arrays: Sequence[object], options: Mapping[str, Attribute]) -> Sequence[object]:
        x, first, second = (np.asarray(each) for each in arrays)
        first[...], second[...] = x, x * int(str(options["by"]))
        return ()

    made, memory, (first, second) = step(Routine("filled", run=fill, fills=True), (False, True))
    places: list[Operand[object]] = []

    class Noted(Workspace):
        def __call__(self, value: Value) -> Operand[object]:
            places.append(super().__call__(value))
            return places[-1]

    made.run(memory, Noted(fresh.frame))
    assert first not in memory
    assert memory[second] is places[1]
    np.testing.assert_array_equal(memory[second].view, np.full((2, 3), 3, np.float32))
