"""The accesses of memory inside an operation, in one form: `read`, `write`, `load`, `store` and both ends of `copy`."""

from dataclasses import dataclass
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.tile.verify import is_shared
from tessera.lowering.tile.walk import operations

ACCESSES: Final = ("tessera.read", "tessera.write", "tessera.load", "tessera.store", "tessera.copy")


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access: `op` touches `extents` elements of `memory` from `starts` on, one number an axis.

    The shared end of a `copy` is an access of the whole buffer: starts are empty.
    """

    op: Any
    memory: Any
    starts: tuple[Any, ...]
    extents: tuple[int, ...]
    writes: bool

    @property
    def shared(self) -> bool:
        """Whether the memory is a group's shared buffer."""
        return is_shared(self.memory.type)

    @property
    def whole(self) -> bool:
        """Whether this is the shared end of a copy."""
        return self.op.name == "tessera.copy" and self.writes


def accesses(root: Any) -> list[Access]:
    """Every access inside `root` in program order; a copy reads its source, then writes its destination."""
    found: list[Access] = []
    for op in operations(root, *ACCESSES):
        found += accesses_of(op)
    return found


def accesses_of(op: Any) -> list[Access]:
    """The accesses of one operation."""
    operands = list(op.operands)
    match op.name:
        case "tessera.read":
            return [Access(op, operands[0], tuple(operands[1:]), (1,) * (len(operands) - 1), False)]
        case "tessera.write":
            return [Access(op, operands[0], tuple(operands[2:]), (1,) * (len(operands) - 2), True)]
        case "tessera.load":
            return [Access(op, operands[0], tuple(operands[1:]), extents_of(op), False)]
        case "tessera.store":
            return [Access(op, operands[0], tuple(operands[2:]), extents_of(op), True)]
        case _:
            shape = tuple(operands[0].type.shape)
            return [
                Access(op, operands[1], tuple(operands[2:]), extents_of(op), False),
                Access(op, operands[0], (), shape, True),
            ]


def extents_of(op: Any) -> tuple[int, ...]:
    """The `extents` attribute."""
    return tuple(ir.DenseI64ArrayAttr(op.attributes["extents"]))
