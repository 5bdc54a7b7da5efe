"""Check that the schedule in Tile IR is legal, attribute by attribute; see `SCHEDULE_ATTRIBUTES`."""

from collections.abc import Iterable, Iterator

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.schedule_attributes import LAYOUT, PIPELINE, PREFIX, SCHEDULE, SCHEDULE_ATTRIBUTES, schedule_of

Problem = tuple[AnyOp, str, str]
"""An operation, what is wrong with it, and what to try."""


def schedule_problems(function: AnyOp, operations: Iterable[AnyOp]) -> Iterator[Problem]:
    """Yield what is not legal in the attributes of a function and of its operations."""
    try:
        schedule_of(function)
    except ValueError as error:
        yield function, str(error), f"one of the legal values of `{SCHEDULE}`"
    for op in operations:
        for name in (name.removeprefix(PREFIX) for name in op.attributes if name.startswith(PREFIX)):
            if name in SCHEDULE_ATTRIBUTES:
                yield from _attribute_problems(op, name)


def _attribute_problems(op: AnyOp, name: str) -> Iterator[Problem]:
    rule, value = SCHEDULE_ATTRIBUTES[name], op.attributes[PREFIX + name]
    if rule.operations and op.name not in rule.operations:
        yield op, f"`{PREFIX}{name}` cannot stand on `{op.name}`", f"put it on {' or '.join(rule.operations)}"
    elif name == PIPELINE:
        if not isinstance(value, ir.IntegerAttr) or ir.IntegerAttr(value).value < 0:
            yield op, f"`{PREFIX}{name} = {value}` is no number of a pipeline", "`0 : i64` for the first one"
    elif rule.legal and (not isinstance(value, ir.StringAttr) or ir.StringAttr(value).value not in rule.legal):
        legal = " or ".join(f'"{text}"' for text in rule.legal)
        yield op, f"`{PREFIX}{name} = {value}` is not legal", f"{legal}, or leave the attribute out"
    elif name == LAYOUT and not op.results:
        yield op, f"`{PREFIX}{name}` stands on an operation that makes no tile", "leave it out"
