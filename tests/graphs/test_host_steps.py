"""Calls between launches: results of a routine become arrays of the caller's library, in C order."""

import numpy as np
import pytest

from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import WrongResult
from tessera.core.graph.graph import UNKNOWN_SOURCE, Node, Routine, Tensor, Value
from tessera.core.schedule.plan import CALL, Group
from tessera.graphs.host_steps import Memory, RoutineStep, placed
from tessera.runtime.memory.operands import Operand, operand


def fresh(value: Value) -> Operand[object]:
    return operand(np.empty(value.type.shape, value.type.dtype.numpy), "out")


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
    straight = operand(turned.view.copy(), "x")
    assert placed(straight, place, "f") is straight


def test_arrays_of_another_library_are_copied():
    torch = pytest.importorskip("torch")
    place = operand(torch.zeros(3), "out")
    got = placed(operand(np.ones(3, np.float32), "x"), place, "f")
    assert isinstance(got.value, torch.Tensor)
    np.testing.assert_array_equal(got.view, np.ones(3))
