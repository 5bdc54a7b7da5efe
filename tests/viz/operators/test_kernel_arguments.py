"""Arguments of one kernel of a captured function: what the kernels before it give, or random numbers."""

import numpy as np

from support.operator_graphs import QKV, ROWS, attention, classify
from tessera import op
from tessera.core.base.dtypes import f32
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.viz.operators.captured import captured
from tessera.viz.operators.chosen_kernel import ChosenKernel
from tessera.viz.operators.kernel_arguments import described_arrays, empty_arguments, kernel_arguments


def test_the_first_kernel_reads_the_examples():
    chosen = ChosenKernel(captured(attention, QKV, "tiles"))
    values, made_up = kernel_arguments(chosen, chosen.interpreted)
    assert not made_up
    assert all((a == b).all() for a, b in zip(values[:3], QKV, strict=True))
    assert not values[3].any()


def test_a_later_kernel_reads_what_the_earlier_ones_give():
    p, _ = classify(*ROWS)
    chosen = ChosenKernel(captured(classify, ROWS, "tiles"), 2)
    (read, _), made_up = kernel_arguments(chosen, chosen.interpreted)
    assert not made_up
    np.testing.assert_allclose(read, p, rtol=1e-5)


def test_captured_arrays_are_known():
    w = np.full((3, 3), 2, np.float32)

    def scaled(x: Tracer) -> object:
        return op.relu(x) * w

    chosen = ChosenKernel(captured(GraphFunction(scaled), (np.ones((3, 3), np.float32),), "tiles"))
    values, made_up = kernel_arguments(chosen, chosen.interpreted)
    assert not made_up
    assert any((each == 2).all() for each in values)


def test_without_examples_they_are_made_up():
    attention(*QKV)
    chosen = ChosenKernel(captured(attention, (), "tiles"))
    values, made_up = kernel_arguments(chosen, chosen.interpreted)
    assert made_up
    assert all(each.any() for each in values[:3])


def test_descriptions_and_empty_arrays():
    program = ChosenKernel(captured(attention, QKV, "schedule")).interpreted.program
    assert [(each.dtype, each.shape) for each in described_arrays(program)] == [(f32, (64, 32))] * 4
    empty = list(empty_arguments(program))
    assert [each.shape for each in empty] == [(64, 32)] * 4
    assert {each.strides for each in empty} == {(0, 0)}
