"""From a group to a Program: parameters for its arrays, blocks along its axes, and its loops.

No source text is written: every operation has the place in the user's text of the operator that it came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from tessera.core.base.source import NOWHERE, Source
from tessera.core.graph.graph import Value
from tessera.core.program.build import ProgramBuilder
from tessera.core.program.program import Attribute, Domain, Parameter, Program
from tessera.core.program.program import Value as ProgramValue
from tessera.core.program.types import Array
from tessera.core.schedule.plan import CASCADE, ELEMENTS, PRODUCT, ROWS, SCATTER, Group
from tessera.lowering.schedule.emit.blocks import BlockEmitter
from tessera.lowering.schedule.emit.cascade import CascadeEmitter
from tessera.lowering.schedule.emit.columns import ColumnEmitter, in_slabs
from tessera.lowering.schedule.emit.element_tiles import ElementTileEmitter
from tessera.lowering.schedule.emit.elements import ElementEmitter
from tessera.lowering.schedule.emit.scatter import ScatterEmitter
from tessera.lowering.schedule.emit.scatter_tiles import ScatterTileEmitter, scatter_shapes
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

    def of(self, group: Group) -> "Lowered":
        """Return the same program for a group that is equal but for its values.

        Arrays are passed in the shapes that the program has: those that are read in steps as pairs.
        """
        arguments = [argument for _, argument in arguments_of(group, lanes=self.program.domain.kind == "lanes")]
        mine = dict.fromkeys(arguments) if group.kind == CASCADE else arguments
        pairs = zip(mine, self.arguments, strict=True)
        return Lowered(self.program, tuple(replace(one, shape=known.shape) for one, known in pairs))


def arguments_of(group: Group, *, lanes: bool = True) -> tuple[tuple[Value, Argument], ...]:
    """Return the arguments of a group's kernel, each with the first value of the group that it is read as.

    What is written in place is one argument, the one that is written.
    lanes: whether kernels of elements have one lane each; as tiles they take arrays in the shape of these
    """
    memory = {node.result: node.operands[0] for node in group.members if node.op == "view"}
    elements = group.kind in (ELEMENTS, SCATTER)
    reads = {value: group.loads[value].shape for value in dict.fromkeys(group.loaded_as.values())}
    writes = {value: access.shape for value, access in group.stores.items()}
    if elements and not lanes:
        shapes = scatter_shapes(group.members[0]) if group.kind == SCATTER else {}
        reads, writes = ({v: shapes.get(v, (v.type.size,)) for v in each} for each in (reads, writes))
    taken = set(group.in_place.values())
    read = [(v, Argument(v if elements else memory.get(v, v), shape, mutable=False)) for v, shape in reads.items()]
    return (
        *((value, argument) for value, argument in read if argument.value not in taken),
        *((v, Argument(v, shape, mutable=True)) for v, shape in writes.items()),
    )


def to_program(
    group: Group, blocks: Mapping[int, int], options: Mapping[str, Attribute], source: Source,
    aligned: Mapping[Value, bool], *, lanes: bool = True,
) -> Lowered:  # fmt: skip
    """Return the kernel of a group.

    blocks: elements of a tile along each axis; options: schedule options
    aligned: whether each array in memory begins and ends its rows at multiples of 16 bytes
    lanes: whether the target has lanes: without, kernels of elements are tiles of them
    """
    build = ProgramBuilder()
    read, written = dict[Value, ProgramValue](), dict[Value, ProgramValue]()
    parameters: list[Parameter] = []
    arguments: list[Argument] = []
    tiles = Tiles(build, blocks)
    shared: dict[Argument, ProgramValue] = {}  # a cascade may read one array along several of its axes
    for number, (value, whole) in enumerate(arguments_of(group, lanes=lanes)):
        shape = tiles.memory(group.loads[value]) if group.kind == PRODUCT and not whole.mutable else whole.shape
        argument = replace(whole, shape=shape)
        if group.kind == CASCADE and not argument.mutable and argument in shared:
            read[value] = shared[argument]
            continue
        inner = (argument.shape[-1] if argument.shape else 1) * value.type.dtype.bytes
        kind = Array(value.type.dtype, argument.shape, True, aligned.get(argument.value, False) and inner % 16 == 0)
        name = f"{value.name or ('y' if argument.mutable else 'x')}_{number}"
        parameter = ProgramValue(kind, name, value.span)
        (written if argument.mutable else read)[value] = parameter
        shared[argument] = parameter
        parameters.append(Parameter(name, parameter, argument.mutable, value.span))
        arguments.append(argument)
    memory = {node.result: node.operands[0] for node in group.members if node.op == "view"}
    for value, operand in group.in_place.items():
        read |= {each: written[value] for each in group.loaded_as.values() if memory.get(each, each) is operand}
    span = next((node.span for node in group.members if node.span != NOWHERE), NOWHERE)
    arrays = Arrays(read, written)
    with build.at(span):
        _emitter(build, group, arrays, tiles, lanes=lanes).emit()
    single = group.kind not in (ELEMENTS, SCATTER) or not lanes
    domain = Domain("single") if single else Domain("lanes", (prod(group.extents),))
    program = Program(
        group.name, tuple(parameters), build.finish(), (), domain, None, None, dict(options), source, span
    )
    return Lowered(program, tuple(arguments))


def _emitter(
    build: ProgramBuilder, group: Group, arrays: Arrays, tiles: Tiles, *, lanes: bool
) -> ElementEmitter | ScatterEmitter | ScatterTileEmitter | BlockEmitter:
    """Return what emits a group of this kind."""
    if group.kind == ELEMENTS:
        return (ElementEmitter if lanes else ElementTileEmitter)(build, group, arrays)
    if group.kind == SCATTER:
        return (ScatterEmitter if lanes else ScatterTileEmitter)(build, group, arrays)
    if group.kind == CASCADE:
        return CascadeEmitter(build, group, arrays, tiles)
    if group.kind == ROWS and in_slabs(group, tiles.blocks):
        return ColumnEmitter(build, group, arrays, tiles)
    return BlockEmitter(build, group, arrays, tiles)
