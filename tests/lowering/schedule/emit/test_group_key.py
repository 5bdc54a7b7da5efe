"""Keys of groups: equal layers have one program, and whatever changes the program changes the key."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import numpy as np

from support.gradients import Make, graph_of
from support.operators import Array
from tessera import graph, op
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.group_key import group_key
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.session.session import resolve_target


def groups(make: Make, *shapes: tuple[int, ...]) -> tuple[Group, ...]:
    return plan_graph(graph_of(make, *((f32, shape) for shape in shapes))).groups


def test_equal_groups_have_equal_keys_and_others_do_not():
    def product(b: GraphBuilder, x: Value, w: Value) -> Value:
        return b.contract(x, w, [(0, 1), (1, 2)], (0, 2))

    def turned(b: GraphBuilder, x: Value, w: Value) -> Value:
        return b.contract(x, w, [(1, 0), (1, 2)], (0, 2))

    (one,), (two,) = groups(product, (8, 8), (8, 8)), groups(product, (8, 8), (8, 8))
    assert group_key(one) == group_key(two)
    others = [*groups(turned, (8, 8), (8, 8)), *groups(product, (8, 8), (8, 4)),
              *groups(lambda b, x, w: b.unary("exp", product(b, x, w)), (8, 8), (8, 8))]  # fmt: skip
    assert len({group_key(each) for each in (one, *others)}) == len(others) + 1


def test_equal_layers_are_emitted_once():
    def model(x: Array, *weights: Array) -> Array:
        for w in weights:
            x = op.softmax(op.matmul(x, w))
        return x

    made = graph.module("model")(model)
    arrays = [np.ones((24, 24), np.float32) for _ in range(9)]
    kernels = made.executable_for(*arrays).kernels(resolve_target("interpret"))
    programs = {id(kernel.lowered.program) for kernel in kernels}
    assert len(programs) <= len(kernels) - 3
    for kernel in kernels:
        values = {each.value for each in kernel.lowered.arguments}
        assert values == {*kernel.group.inputs, *kernel.group.outputs}
        assert len(kernel.lowered.arguments) == len(kernel.lowered.program.parameters)


def test_an_array_that_a_cascade_reads_twice_is_one_argument():
    def twice(x: Array) -> Array:
        return op.matmul(op.softmax(op.matmul(x, op.transpose(x, (1, 0)))), x)

    made = graph.module("twice")(twice)
    (kernel,) = made.executable_for(np.ones((24, 24), np.float32)).kernels(resolve_target("interpret"))
    assert len(kernel.lowered.arguments) == len(kernel.lowered.program.parameters)
    assert kernel.lowered.of(kernel.group) == kernel.lowered
