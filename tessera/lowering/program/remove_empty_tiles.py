"""Leave out what has no elements, before anything is lowered: no target knows of tiles without elements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.base.reductions import identity
from tessera.core.program.program import Attribute, Block, Op, Program, Value, find
from tessera.core.program.types import Scalar, Tile


def without_empty_tiles(program: Program) -> Program:
    """Return `program` with no tile of extent 0 in it; the same object where it has none.

    before: ``%t = load %x [%zero] : tile<0x5xf32>``, ``%s = reduce %t sum : tile<5xf32>``, ``store %y %s``
    after:  ``%i = const -0.0``, ``%s = full %i : tile<5xf32>``, ``store %y %s``
    Reductions of nothing are their identity and products over nothing are what they start from.
    """
    if find(program.body, lambda op: any(map(_is_empty, op.results)) or _moves_nothing(op)) is None:
        return program
    return replace(program, body=_Rewriter().block(program.body))


def _is_empty(value: Value) -> bool:
    return isinstance(value.type, Tile) and 0 in value.type.shape


def _moves_nothing(op: Op) -> bool:
    extents = op.attributes.get("extents")
    return op.opcode in ("load", "gather", "store", "copy") and isinstance(extents, tuple) and 0 in extents


@dataclass
class _Rewriter:
    """`instead`: what takes the place of a value."""

    instead: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def block(self, block: Block) -> Block:
        """Remove empty arguments of a block, and operations on nothing."""
        ops = tuple(made for op in block.ops for made in self._op(op))
        return Block(_kept(block.arguments), ops)

    def _op(self, op: Op) -> Iterator[Op]:
        if _moves_nothing(op) or (op.results and not op.regions and all(map(_is_empty, op.results))):
            return
        operands = tuple(self.instead.get(value, value) for value in op.operands)
        if op.opcode == "reduce" and _is_empty(op.operands[0]):
            yield from _constant(op, _identity(str(op.attributes["kind"]), op.result.type.dtype))
        elif op.opcode == "dot" and _is_empty(op.operands[0]):
            if len(operands) == 3:
                self.instead[op.result] = operands[2]
            else:
                yield from _constant(op, 0 if op.result.type.dtype.is_integer else 0.0)
        else:
            regions = tuple(self.block(region) for region in op.regions)
            yield replace(op, operands=_kept(operands), results=_kept(op.results), regions=regions)


def _kept(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(value for value in values if not _is_empty(value))


def _identity(kind: str, dtype: DType) -> Attribute:
    value = identity(kind, np.dtype(dtype.numpy))[()]
    return value.item() if dtype.is_integer or dtype.kind == "bool" else float(value)


def _constant(op: Op, number: Attribute) -> Iterator[Op]:
    """Replace `op` by a constant: its result is `number` everywhere."""
    kind = op.result.type
    if not isinstance(kind, Tile):
        yield Op("const", (), op.results, {"value": number}, (), op.span)
        return
    scalar = Value(Scalar(kind.dtype), "", op.span)
    yield Op("const", (), (scalar,), {"value": number}, (), op.span)
    yield Op("full", (scalar,), op.results, {}, (), op.span)
