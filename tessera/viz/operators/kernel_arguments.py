"""Make the arguments of one kernel of a captured function: what the kernels before it give for the examples.

Where there are no examples, or the kernel is one of a body of a loop, they are random numbers.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tessera.core.graph.graph import Graph, Value
from tessera.core.program.arguments import ArrayArgument
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.schedule.emit.to_program import Argument, Lowered
from tessera.profiling.argument_clones import downloaded
from tessera.runtime.arrays.host import AnyArray, as_array
from tessera.runtime.interpret.graph import evaluate
from tessera.runtime.memory.device_arrays import device_view, is_on_device
from tessera.viz.operators.chosen_kernel import ChosenKernel


def described_arrays(program: Program) -> Iterator[ArrayArgument]:
    """Yield what a kernel of operators is launched with: arrays of extents that are known."""
    for parameter in program.parameters:
        kind = parameter.value.type
        assert isinstance(kind, Array)
        shape = tuple(extent for extent in kind.shape if isinstance(extent, int))
        assert len(shape) == len(kind.shape)
        yield ArrayArgument(kind.dtype, shape, aligned=kind.aligned)


def empty_arguments(program: Program) -> Iterator[AnyArray]:
    """Yield arrays of the kernel's types and shapes, which take no memory."""
    for each in described_arrays(program):
        yield np.broadcast_to(np.zeros((), each.dtype.numpy), each.shape)


def kernel_arguments(chosen: ChosenKernel, lowered: Lowered) -> tuple[tuple[AnyArray, ...], bool]:
    """Return the arrays that a kernel reads and writes, and whether they are made up."""
    known = _values(chosen)
    made_up = not all(each.value in known for each in lowered.arguments if not each.mutable)
    source = np.random.default_rng(0)
    return tuple(_array(each, {} if made_up else known, source) for each in lowered.arguments), made_up


def _array(each: Argument, known: Mapping[Value, AnyArray], source: np.random.Generator) -> AnyArray:
    dtype = each.value.type.dtype
    if each.mutable:
        return np.zeros(each.shape, dtype.numpy)
    if each.value in known:
        return np.ascontiguousarray(known[each.value]).reshape(each.shape)
    drawn = source.standard_normal(each.shape) if dtype.is_float else source.integers(0, 2, each.shape)
    return np.asarray(drawn).astype(dtype.numpy)


def _values(chosen: ChosenKernel) -> Mapping[Value, AnyArray]:
    """Return every value of the scheduled graph for the examples; none where they are not what it takes."""
    graph = chosen.graph.plan.graph
    arrays = [_here(each) for each in chosen.graph.leaves]
    if not _fits(graph, arrays) or chosen.group not in chosen.graph.plan.groups:
        return {}
    found = dict(zip(graph.inputs, arrays, strict=True))
    evaluate(graph, arrays, lambda node, results: found.update(zip(node.results, results, strict=True)))
    return found


def _fits(graph: Graph, arrays: Sequence[AnyArray]) -> bool:
    kinds = [(value.type.shape, np.dtype(value.type.dtype.numpy)) for value in graph.inputs]
    return kinds == [(array.shape, array.dtype) for array in arrays]


def _here(value: object) -> AnyArray:
    """Return an array in this process's memory."""
    if not is_on_device(value):
        return as_array(value, "an argument")
    (copy,) = downloaded((device_view(value, "an argument"),))
    return copy
