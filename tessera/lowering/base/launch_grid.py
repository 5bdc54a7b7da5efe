"""Derive the launch grid of a kernel from what passes left on its function."""

from tessera.core.artifact import LaunchRule
from tessera.core.mlir import AnyOp
from tessera.core.program.expressions import Expression, read_expression
from tessera.core.program.program import Attribute, Program
from tessera.lowering.base.attributes import RANGES, from_attribute


def launch_rule(function: AnyOp, program: Program, lanes_per_group: int) -> LaunchRule:
    """Return the launch rule of a kernel; `lanes_per_group` is the target's choice where the user made none."""
    if RANGES in function.attributes:
        return LaunchRule("ranges", ranges=ranges_of(function))
    domain = program.domain
    if domain.kind == "groups":
        return LaunchRule("groups", group=program.group or (1,), count=domain.extents)
    if program.group is not None:
        return LaunchRule("groups", extents=domain.extents, group=program.group, axes=domain.axes)
    if domain.kind == "lanes":
        return LaunchRule("lanes", extents=domain.extents, lanes_per_group=lanes_per_group)
    return LaunchRule("single")


def ranges_of(function: AnyOp) -> tuple[tuple[Expression, int], ...]:
    """Return the ranges whose points are the groups of a kernel, outer first: (length, step); () without any."""
    return _ranges(from_attribute(function.attributes[RANGES])) if RANGES in function.attributes else ()


def _ranges(value: Attribute) -> tuple[tuple[Expression, int], ...]:
    pairs: list[tuple[Expression, int]] = []
    for pair in value if isinstance(value, tuple) else ():
        match pair:
            case (length, int() as step):
                pairs.append((read_expression(length), step))
            case _:
                msg = f"not a range: {pair}"
                raise ValueError(msg)
    return tuple(pairs)
