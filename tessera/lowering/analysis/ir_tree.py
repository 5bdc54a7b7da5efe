"""Tile IR read once into plain Python: walking the bindings again and again would cost more than lowering."""

from collections.abc import Iterator
from dataclasses import dataclass

from tessera.core.mlir import AnyOp, ir


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation: `op` is the MLIR operation, `operands` and `results` its values, `blocks` one block a region."""

    op: AnyOp
    name: str
    operands: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    blocks: tuple["IrTree", ...]
    location: ir.Location

    def walk(self) -> Iterator["Node"]:
        """Yield the operation and everything inside it, outer before inner."""
        yield self
        for block in self.blocks:
            for node in block.nodes:
                yield from node.walk()

    def text(self, attribute: str, default: str = "") -> str:
        """Return a string attribute."""
        attributes = self.op.attributes
        return str(ir.StringAttr(attributes[attribute]).value) if attribute in attributes else default

    def number(self, attribute: str) -> int | None:
        """Return an integer attribute, or None where it is absent."""
        attributes = self.op.attributes
        return int(ir.IntegerAttr(attributes[attribute]).value) if attribute in attributes else None

    @property
    def has_tiles(self) -> bool:
        """Return whether an operand or a result is a tile."""
        return any(is_tile(v) for v in (*self.operands, *self.results))


@dataclass(frozen=True, slots=True, eq=False)
class IrTree:
    """One block: its arguments and operations, without the terminator, which is `end`."""

    arguments: tuple[ir.Value, ...]
    nodes: tuple[Node, ...]
    end: Node


def is_tile(value: ir.Value) -> bool:
    """Return whether a Tile IR value is a tile."""
    return isinstance(value.type, ir.RankedTensorType)


def read_function(function: AnyOp) -> IrTree:
    """Return the tree of a `func.func`'s only block."""
    return _block(function.regions[0].blocks[0])


def _block(block: ir.Block) -> IrTree:
    nodes = [_node(op.operation) for op in block.operations]
    return IrTree(tuple(block.arguments), tuple(nodes[:-1]), nodes[-1])


def _node(op: AnyOp) -> Node:
    blocks = tuple(_block(region.blocks[0]) for region in op.regions if len(region.blocks))
    return Node(op, op.name, tuple(op.operands), tuple(op.results), blocks, op.location)
