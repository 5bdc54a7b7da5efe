"""Prepared graphs: steps in order, memory given back behind its last use, outputs that share memory with others."""

import numpy as np

from support.operators import drawn
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.settings import overridden
from tessera.graphs.executable import Executable
from tessera.graphs.execution.frames import Frame, Workspace
from tessera.graphs.execution.prepared import KernelStep, aliases_after
from tessera.graphs.execution.supply import LibrarySupply
from tessera.runtime.memory.operands import operand
from tessera.session.session import resolve_target


def chain(length: int) -> Graph:
    """Sums along rows and columns in turn: a kernel each."""
    builder = GraphBuilder()
    x = Value(Tensor(f32, (4, 4)), "x")
    value = x
    for _ in range(length):
        row = builder.reduce(value, (1,))
        value = builder.map(apply("sub", Argument(1, f32), Argument(0, f32)), [row, value], [(0,), (1, 0)], (4, 4))
    return builder.finish("chain", [x], [builder.reshape(value, (16,))])


def test_steps_run_in_order_and_give_memory_back():
    graph, x = chain(3), drawn((4, 4), np.float32)
    with overridden(target="interpret"):
        ready = Executable(graph).prepared(resolve_target("interpret"), (False,), (x,))
    assert all(isinstance(step, KernelStep) for step in ready.steps)
    assert len(ready.steps) > 1
    frame = Frame(ready.plan, LibrarySupply.of(operand(x, "x")))
    (got,) = ready.run([operand(x, "x")], Workspace(frame))
    want = x.astype(np.float64)
    for _ in range(3):
        want = want.T - want.sum(1)[:, None]
    np.testing.assert_allclose(got.view, want.reshape(16), rtol=1e-4, atol=1e-4)
    (output,) = ready.graph.outputs
    assert ready.plan.root(output) in [value for group in ready.plan.groups for value in group.outputs]
    assert ready.plan.root(output) not in frame.views
    assert len({each.offset for each in ready.plan.buffers}) < len(ready.plan.buffers)  # memory is used again


def test_intermediates_lie_in_the_arena_and_outputs_do_not():
    graph, x = chain(4), drawn((4, 4), np.float32)
    with overridden(target="interpret"):
        ready = Executable(graph).prepared(resolve_target("interpret"), (False,), (x,))
    supply = LibrarySupply.of(operand(x, "x"))
    with ready.frames.lent(supply) as frame:
        arena = next(iter(frame.views.values())).view.base
        assert all(np.shares_memory(each.view, arena) for each in frame.views.values())
        first = ready.run([operand(x, "x")], Workspace(frame))[0].view.copy()
    outputs = [ready.call([operand(x, "x")], supply)[0].view for _ in range(2)]
    assert not np.shares_memory(outputs[0], outputs[1])
    for each in outputs:
        assert not any(np.shares_memory(each, view.view) for view in frame.views.values())
        np.testing.assert_array_equal(each, first)


def test_values_that_are_others_follow_those_in_whatever_order_they_are_named():
    x, y, z, a, b, c = (Value(Tensor(f32, (4,)), name) for name in "xyzabc")
    aliases = {c: b, a: x, b: a, z: y}
    assert aliases_after(aliases, [(x,), (y,), ()]) == (((a, x), (b, a), (c, b)), ((z, y),), ())
