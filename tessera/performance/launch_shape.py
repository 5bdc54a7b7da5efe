"""The size of a launch, from a program and the shapes of its arguments, without launching: what work is counted for."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.artifact import Artifact, LaunchRule, Resources
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.dependences import Dependences
from tessera.core.program.expressions import Expression
from tessera.core.program.program import Op, Program
from tessera.core.targets import Target
from tessera.core.work import Shape
from tessera.performance.work_count import spread_loops
from tessera.runtime.binding.grid import Grid, GridRule

_MOST_RANGES: Final = 4
_CPU_LANES: Final = 8192
_GPU_LANES: Final = 256
"""Lanes of a piece of a launch without groups, where the kernel does not say."""
_ROWS: Final = 64
"""Groups that a kernel is taken to have whose rows the compiler may spread over groups."""


def bound_extents(program: Program, arguments: Sequence[Argument]) -> dict[str, int]:
    """Return the value of each shape symbol in a call with `arguments`."""
    found: dict[str, int] = {}
    for symbol in program.symbols:
        argument = arguments[symbol.parameter] if symbol.parameter < len(arguments) else None  # None: a workspace
        if isinstance(argument, ArrayArgument):
            found.setdefault(symbol.name, argument.shape[symbol.axis] * symbol.scale)
    return found


def launch_shape(artifact: Artifact, program: Program, extents: Mapping[str, int], grid: Grid | None = None) -> Shape:
    """Return the size of a compiled program's launch.  Raises BadGrid, MissingSchedule for a grid that does not fit."""
    rule = artifact.launch
    names = list(extents)
    places = GridRule(artifact, lambda name: (names.index(name), 1))
    shape = places.shape([extents[name] for name in names], grid)
    lanes = rule.lanes_per_group if rule.kind == "lanes" else math.prod(rule.group or (1,))
    loops = len(rule.ranges) if _agrees(rule, spread_loops(program)) else 0
    whole = shape.lanes if rule.kind == "lanes" else None
    # Where the compiler spread rows of what the kernel computes, the kernel's text is the work of all groups together.
    spread_rows = rule.kind == "ranges" and not loops
    axes = shape.axes if rule.kind == "groups" else (1 if spread_rows else shape.units, 1, 1)
    return Shape(dict(extents), shape.units, axes, lanes, whole, loops)


def estimated_shape(program: Program, extents: Mapping[str, int], target: Target, grid: Grid | None = None) -> Shape:
    """Return the size of a launch of a program that is not compiled yet: what the compiler most likely makes of it."""
    nothing = Artifact(
        "", program.name, target, b"", "", (), (), (), _likely_rule(program, target), Resources(), True,
        program.source, program.span,
    )  # fmt: skip
    return launch_shape(nothing, program, extents, grid)


def _likely_rule(program: Program, target: Target) -> LaunchRule:
    """Return the rule that the passes come to that spread loops over groups, or that of a kernel they leave alone."""
    has_ids = any(op.opcode == "id" for op in program.body.walk())
    ranges = [] if has_ids else _ranges(program)
    if ranges:
        return LaunchRule("ranges", ranges=tuple(ranges[:_MOST_RANGES]))
    domain = program.domain
    if domain.kind == "groups":
        return LaunchRule("groups", group=program.group or (1,), count=domain.extents)
    if program.group is not None:
        return LaunchRule("groups", extents=domain.extents, group=program.group, axes=domain.axes)
    if domain.kind == "lanes":
        lanes = program.options.get("threads_per_block")
        if not target.kind.on_gpu or not isinstance(lanes, int):
            lanes = _GPU_LANES if target.kind.on_gpu else _CPU_LANES
        return LaunchRule("lanes", extents=domain.extents, lanes_per_group=lanes)
    return LaunchRule("ranges", ranges=((_ROWS, 1),))


def _ranges(program: Program) -> list[tuple[Expression, int]]:
    """Return the length and step of each loop that can be spread."""
    dependences = Dependences(program)
    found: list[tuple[Expression, int]] = []
    for loop in spread_loops(program):
        length, step = dependences.length(loop), dependences.definitions.constant(loop.operands[2])
        if dependences.of(loop) is not None or length is None or step is None:
            break
        found.append((length, step))
    return found


def _agrees(rule: LaunchRule, loops: Sequence[Op]) -> bool:
    """Return whether the compiler spread the program's loops, not the rows of what it computes."""
    return rule.kind == "ranges" and 0 < len(rule.ranges) <= len(loops)
