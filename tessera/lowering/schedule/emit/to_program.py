"""From a group to a Program: parameters for its arrays, blocks along its axes, and its loops.

No source text is written: every operation has the place in the user's text of the operator that it came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tessera.core.base.source import NOWHERE, Source
from tessera.core.graph.graph import Value
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Attribute, Domain, Parameter, Program
from tessera.core.program.program import Value as ProgramValue
from tessera.core.program.types import Array
from tessera.core.schedule.plan import CASCADE, ELEMENTS, SCATTER, Group
from tessera.lowering.schedule.emit.blocks import BlockEmitter
from tessera.lowering.schedule.emit.cascade import CascadeEmitter
from tessera.lowering.schedule.emit.elements import ElementEmitter
from tessera.lowering.schedule.emit.scatter import ScatterEmitter
from tessera.lowering.schedule.emit.tiles import Arrays, Tiles


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a group's kernel: a value in memory, and the shape in which it is passed."""

    value: Value
    shape: tuple[int, ...]
    mutable: bool


@dataclass(frozen=True, slots=True)
class Lowered:
    """A group as a Program, and what it is launched with."""

    program: Program
    arguments: tuple[Argument, ...]


def arguments_of(group: Group) -> tuple[tuple[Value, Argument], ...]:
    """Return the arguments of a group's kernel, each with the value of the group that it is read as."""
    memory = {node.result: node.operands[0] for node in group.members if node.op == "view"}
    elements = group.kind in (ELEMENTS, SCATTER)
    reads = [(value, Argument(value if elements else memory.get(value, value), access.shape, mutable=False))
             for value, access in group.loads.items()]  # fmt: skip
    return (*reads, *((value, Argument(value, access.shape, mutable=True)) for value, access in group.stores.items()))


def to_program(
    group: Group, blocks: Mapping[int, int], options: Mapping[str, Attribute], source: Source,
    aligned: Mapping[Value, bool],
) -> Lowered:  # fmt: skip
    """Return the kernel of a group.

    blocks: elements of a tile along each axis; options: schedule options
    aligned: whether each array in memory begins and ends its rows at multiples of 16 bytes
    """
    build = ProgramBuilder()
    read, written = dict[Value, ProgramValue](), dict[Value, ProgramValue]()
    parameters: list[Parameter] = []
    arguments: list[Argument] = []
    for number, (value, argument) in enumerate(arguments_of(group)):
        inner = (argument.shape[-1] if argument.shape else 1) * value.type.dtype.bytes
        kind = Array(value.type.dtype, argument.shape, True, aligned.get(argument.value, False) and inner % 16 == 0)
        name = f"{value.name or ('y' if argument.mutable else 'x')}_{number}"
        parameter = ProgramValue(kind, name, value.span)
        (written if argument.mutable else read)[value] = parameter
        parameters.append(Parameter(name, parameter, argument.mutable, value.span))
        arguments.append(argument)
    span = next((node.span for node in group.members if node.span != NOWHERE), NOWHERE)
    arrays = Arrays(read, written)
    with build.at(span):
        if group.kind == ELEMENTS:
            ElementEmitter(build, group, arrays).emit()
            domain = Domain("lanes", (prod(group.extents),))
        elif group.kind == SCATTER:
            ScatterEmitter(build, group, arrays).emit()
            domain = Domain("lanes", (prod(group.extents),))
        elif group.kind == CASCADE:
            CascadeEmitter(build, group, arrays, Tiles(build, blocks)).emit()
            domain = Domain("single")
        else:
            BlockEmitter(build, group, arrays, Tiles(build, blocks)).emit()
            domain = Domain("single")
    program = Program(
        group.name, tuple(parameters), build.finish(), (), domain, None, None, dict(options), source, span
    )
    return Lowered(program, tuple(arguments))
