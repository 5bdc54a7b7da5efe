"""Raise a Program, for known extents, to a graph of its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Literal, Number
from tessera.core.graph.graph import Value as TensorValue
from tessera.core.program.program import Op, Program, Value
from tessera.core.program.types import Array, Scalar
from tessera.lowering.raising.evaluate import Evaluator
from tessera.lowering.raising.loops import LoopValues
from tessera.lowering.raising.materialize import Materializer
from tessera.lowering.raising.memory import ArrayMemory
from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along
from tessera.lowering.raising.refusals import NotRaised
from tessera.lowering.raising.scopes import Binding, LoopScope, constant
from tessera.lowering.raising.terms import Element, Load, Terms

WARP: Final = 32


@dataclass(frozen=True, slots=True)
class Launch:
    """Groups along each axis of the grid, lanes along each axis of a group, and what shape symbols are."""

    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    symbols: Mapping[str, int]


def raise_program(
    program: Program, arguments: Sequence[TensorValue | Number], launch: Launch, builder: GraphBuilder
) -> dict[int, TensorValue]:
    """Append what `program` computes to a graph, and return the arrays that it writes, by number of the parameter.

    arguments: one a parameter: tensors of their types, and for numbers tensors without axes or the numbers themselves
    Raises NotRaised for what has no mathematics here: values that decide how often a loop runs, lanes that exchange
    values, shared memory, several points that write one element, and long loops that carry more than sums and extremes.
    """
    if program.workspaces or program.given:
        raise NotRaised("a kernel of several phases is not raised", program.span)
    terms = Terms()
    makers = {result: op for op in program.body.walk() for result in op.results}
    evaluator = Evaluator(terms, makers, launch.symbols)
    loops = LoopValues(evaluator)
    bindings, axes = _lanes(terms, program, launch)
    given: dict[Value, TensorValue] = {}
    for parameter, argument in zip(program.parameters, arguments, strict=True):
        kind = parameter.value.type
        if isinstance(kind, Array):
            assert isinstance(argument, TensorValue)
            given[parameter.value] = argument
        else:
            assert isinstance(kind, Scalar)
            bindings[parameter.value] = constant(_scalar(terms, argument, kind))
    memory = ArrayMemory(program, evaluator, loops, given, (LoopScope(bindings), axes))
    evaluator.memory, evaluator.loops = memory, loops
    materializer = Materializer(builder, terms)
    outputs: dict[int, TensorValue] = {}
    for number, parameter in enumerate(program.parameters):
        if parameter.value in given and memory.writes(parameter.value):
            places = tuple(terms.axis(extent) for extent in given[parameter.value].type.shape)
            final = memory.final(parameter.value, [along(axis) for axis in places])
            outputs[number] = materializer.value(terms.moved(final, {}), places)
    return outputs


def _scalar(terms: Terms, argument: TensorValue | Number, kind: Scalar) -> Element:
    if isinstance(argument, TensorValue):
        return Element(terms.leaf(Load(argument, ()), kind.dtype))
    if kind.dtype == i64:
        return Element(AffinePosition(int(argument)))
    return Element(Literal(float(argument) if kind.dtype.is_float else argument, kind.dtype))


def _lanes(terms: Terms, program: Program, launch: Launch) -> tuple[dict[Value, Binding], tuple[Axis, ...]]:
    """Return what each id is: the lanes of the launch along each axis are one axis."""
    axes = tuple(terms.axis(groups * lanes) for groups, lanes in zip(launch.grid, launch.group, strict=True))
    empty = 0 in (*launch.grid, *launch.group)
    inside = [along(axis).remainder(max(1, size)) for axis, size in zip(axes, launch.group, strict=True)]
    outside = [along(axis).quotient(max(1, size)) for axis, size in zip(axes, launch.group, strict=True)]
    bindings: dict[Value, Binding] = {}
    for op in program.body.walk():
        if op.opcode == "id":
            value = AffinePosition() if empty else _identity(op, inside, outside, launch)
            bindings[op.result] = constant(Element(value))
    return bindings, axes


def _identity(
    op: Op, inside: Sequence[AffinePosition], outside: Sequence[AffinePosition], launch: Launch
) -> AffinePosition:
    of, axis = str(op.attributes["of"]), op.attributes["axis"]
    lane, group = _linear(inside, launch.group), _linear(outside, launch.grid)
    if isinstance(axis, int):
        lane, group = inside[axis], outside[axis]
    lanes = launch.group[axis] if isinstance(axis, int) else prod(launch.group)
    groups = launch.grid[axis] if isinstance(axis, int) else prod(launch.grid)
    match of:
        case "lane":
            return lane
        case "group":
            return group
        case "thread":
            return lane.plus(group, lanes)
        case "group_lanes":
            return AffinePosition(lanes)
        case "grid_groups":
            return AffinePosition(groups)
        case _:
            inside_group = _linear(inside, launch.group)
            try:
                return inside_group.remainder(WARP) if of == "lane_in_warp" else inside_group.quotient(WARP)
            except NotAffine:
                raise NotRaised(
                    "a lane's place in its warp is raised in groups of whole warps alone", op.span
                ) from None


def _linear(places: Sequence[AffinePosition], extents: Sequence[int]) -> AffinePosition:
    made = AffinePosition()
    for place, extent in zip(places, extents, strict=True):
        made = made.times(extent).plus(place)
    return made
