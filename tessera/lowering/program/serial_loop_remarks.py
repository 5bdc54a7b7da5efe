"""Say of a loop over tiles why its trips run one after the other, and what to do about it."""

from typing import Final

from tessera.core.artifact import LaunchRule, Remark
from tessera.core.program.dependences import ASKED, CARRIED, KEPT, MEETS, Dependence, Dependences, accesses, accesses_of
from tessera.core.program.linear import Definitions
from tessera.core.program.program import Block, Op, Program, Value

_ORDER: Final = "the trips of this loop run one after the other"
_ASSERT: Final = "where no two trips meet, say so: tile.range(..., parallel=True)"
_WRITES: Final = ("write", "store", "copy")


def serial_remarks(program: Program, rule: LaunchRule) -> tuple[Remark, ...]:
    """Make a remark for each outermost tile loop whose trips do not become groups, unless that was asked for."""
    if any(op.opcode == "id" for op in program.body.walk()):
        return ()
    dependences = Dependences(program)
    outermost = _outermost(program.body)
    if any(_is_spread(loop, rule, dependences) for loop in outermost):
        return ()
    parameters = {parameter.value: number for number, parameter in enumerate(program.parameters)}
    remarks: list[Remark] = []
    for loop in outermost:
        text = _reason(loop, dependences)
        touched = {access.memory for access in accesses(loop.regions[0])}
        concerns = tuple(number for value, number in parameters.items() if value in touched)
        if text and concerns:
            remarks.append(Remark(f"{_ORDER}: {text}", loop.span, concerns))
    return tuple(remarks)


def no_alias_pairs(program: Program, rule: LaunchRule) -> tuple[tuple[int, int], ...]:
    """Return the pairs of parameters, by number, that must not be one array where loops are spread over groups."""
    dependences = Dependences(program)
    numbers = {parameter.value: number for number, parameter in enumerate(program.parameters)}
    written = {parameter.value for parameter in program.parameters if parameter.mutable}
    spread = [loop for loop in _outermost(program.body) if _is_spread(loop, rule, dependences)]
    while spread and len(spread) < len(rule.ranges):
        spread += _outermost(spread[-1].regions[0])[:1] or spread[-1:]
    found = {pair for loop in spread for pair in dependences.no_alias(loop, written)}
    return tuple(sorted((numbers[mine], numbers[theirs]) for mine, theirs in found))


def _is_spread(loop: Op, rule: LaunchRule, dependences: Dependences) -> bool:
    """Return whether the groups are trips of `loop`, not rows of what it computes."""
    step = dependences.definitions.constant(loop.operands[2])
    return dependences.of(loop) is None and rule.ranges[:1] == ((dependences.length(loop), step),)


def _outermost(block: Block) -> list[Op]:
    """Return the tile loops that are in no other one."""
    found: list[Op] = []
    for op in block.ops:
        if op.opcode == "for" and op.attributes.get("kind") == "tile":
            found.append(op)
        else:
            found += [loop for region in op.regions for loop in _outermost(region)]
    return found


def _reason(loop: Op, dependences: Dependences) -> str:
    found = dependences.of(loop)
    if found is not None:
        return _one_place(found, loop, dependences.definitions) or _dependence(found)
    if dependences.length(loop) is None:
        return "its bounds are not made of extents and numbers; loop over an extent, with a branch or a range inside"
    return "it stands in another loop or branch, which one group runs; let it be the outer one"


def _one_place(found: Dependence, loop: Op, definitions: Definitions) -> str:
    """Return the reason where every trip reads and writes the same elements, which no assertion mends; "" elsewhere."""
    if found.first is None or found.second is None:
        return ""
    touched = [access for op in (found.first, found.second) for access in accesses_of(op)]
    places = {(access.extents, *(definitions.identity(start) for start in access.starts)) for access in touched}
    index = loop.regions[0].arguments[0]
    if (
        found.kind != MEETS
        or len(places) > 1
        or any(_depends(start, index, definitions) for start in touched[0].starts)
    ):
        return ""
    line, name = found.first.span.line, found.name
    return (
        f"line {line} reads and writes the same elements of {name} in all of them; let it be the innermost loop, "
        "around a variable that holds the sum"
    )


def _depends(value: Value, index: Value, definitions: Definitions) -> bool:
    """Return whether an integer is made of a loop's index, or of anything that is read."""
    maker = definitions.makers.get(value)
    if maker is None:
        return value is index
    return maker.opcode == "read" or any(_depends(operand, index, definitions) for operand in maker.operands)


def _dependence(found: Dependence) -> str:
    if found.kind == ASKED:
        return ""
    if found.kind == CARRIED:
        name = found.name or "a value"
        return f"each needs {name} of the one before; sums into an array, out[0] += ..., need no order"
    first, second = found.first, found.second
    assert first is not None
    assert second is not None
    if found.kind == KEPT:
        where = f"line {second.span.line} may find in {found.name} what line {first.span.line} left there a trip before"
        return f"{where}; allocate the buffer in the loop, or fill it at the beginning of each trip"
    if first is second or (second.opcode in _WRITES and first.span.line == second.span.line):
        return f"line {first.span.line} may write the same elements of {found.name} in two of them; {_ASSERT}"
    verb = "writes" if second.opcode in _WRITES else "reads"
    where = f"line {first.span.line} may write elements of {found.name} that line {second.span.line} {verb} in another"
    return f"{where}; {_ASSERT}"
