"""Groups as Programs: parameters, domains, names, and alignment."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false, reportUnknownVariableType=false

from collections.abc import Mapping

import pytest

from support.gradients import Make
from support.graphs import only, planned
from tessera.core.base.dtypes import DType, bf16, f32, i64
from tessera.core.base.source import Source
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Origin, Value
from tessera.core.graph.index_maps import window
from tessera.core.program.types import Array
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.to_program import Lowered, arguments_of, to_program

SOURCE = Source("cell", "")


def lowered(group: Group, aligned: Mapping[Value, bool] | None = None) -> Lowered:
    return to_program(group, {}, {"warps": 4}, SOURCE, aligned or {})


def group_of(make: Make, *inputs: tuple[DType, tuple[int, ...]]) -> Group:
    return only(planned(make, *inputs))


def test_inputs_come_before_outputs():
    def make(b: GraphBuilder, v: Value, w: Value) -> tuple[Value, Value]:
        total = b.binary("add", v, w)
        return total, b.unary("neg", total)

    made = lowered(group_of(make, (f32, (3, 4)), (f32, (4,))))
    assert [argument.mutable for argument in made.arguments] == [False, False, True, True]
    assert [parameter.name for parameter in made.program.parameters] == ["x0_0", "x1_1", "y_2", "y_3"]
    assert [argument.shape for argument in made.arguments] == [(3, 4), (4,), (3, 4), (3, 4)]
    assert made.program.options == {"warps": 4}
    assert made.program.source is SOURCE


def test_a_view_is_passed_as_the_array_behind_it():
    group = group_of(lambda b, v: b.unary("exp", b.view(v, window((8, 9), (1, 2), (1, 1), (6, 5)))), (f32, (8, 9)))
    (read, argument), (_, result) = arguments_of(group)
    assert read.type.shape == (6, 5)
    assert argument.value in group.inputs
    assert (argument.shape, result.shape) == ((8, 9), (6, 5))


def test_arguments_of_elements_are_whole_arrays():
    group = group_of(lambda b, v, w: b.gather(v, w), (f32, (3, 4)), (i64, ()))
    assert [argument.shape for _, argument in arguments_of(group)] == [(3, 4), (1,), (4,)]


DOMAINS: list[tuple[Make, list[tuple[DType, tuple[int, ...]]], str]] = [
    (lambda b, v: b.unary("exp", v), [(f32, (3, 4))], "single"),
    (lambda b, v: b.unary("exp", b.view(v, window((9,), (8,), (-1,), (9,)))), [(f32, (9,))], "lanes"),
    (lambda b, v: b.scatter_add(b.iota(3), v, 5), [(f32, (3, 4))], "lanes"),
]


@pytest.mark.parametrize(("make", "inputs", "kind"), DOMAINS)
def test_domains(make: Make, inputs: list[tuple[DType, tuple[int, ...]]], kind: str):
    group = planned(make, *inputs).groups[-1]
    assert lowered(group).program.domain.kind == kind


@pytest.mark.parametrize(
    ("dtype", "columns", "aligned"), [(f32, 4, True), (f32, 5, False), (bf16, 8, True), (bf16, 4, False)]
)
def test_rows_of_16_bytes(dtype: DType, columns: int, aligned: bool):
    group = group_of(lambda b, v: b.reduce(b.cast(v, f32), (1,), "max"), (dtype, (3, columns)))
    (value,) = group.inputs
    first, *_ = lowered(group, {value: True}).program.parameters
    unknown, *_ = lowered(group).program.parameters
    assert isinstance(first.value.type, Array)
    assert isinstance(unknown.value.type, Array)
    assert (first.value.type.aligned, unknown.value.type.aligned) == (aligned, False)


def test_a_kernel_is_named_after_the_operators():
    def make(b: GraphBuilder, v: Value) -> Value:
        with b.within(Origin(composite=("layer", "softmax.1"))):
            e = b.unary("exp", v)
        with b.within(Origin(composite=("gelu",))):
            return b.unary("tanh", e)

    assert lowered(group_of(make, (f32, (3,)))).program.name == "softmax_gelu"
    assert lowered(group_of(lambda b, v: b.unary("exp", v), (f32, (3,)))).program.name == "maps"
