"""What each value and statement of a kernel belongs to: a lane, or the whole group.

A value *varies* when it may differ between the lanes of a group; all others are uniform.  An operation is *divergent*
when the control flow around it varies, so that only some lanes of the group may run it.  Memories that may be the same
one (buffers that are swapped or selected) share a *class*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import AnyOp, ir

_LANE_IDS: Final = frozenset(("lane", "thread", "lane_in_warp", "warp"))
WRITES: Final = {"tessera.write": 0, "tessera.store": 0, "tessera.masked_store": 0, "tessera.copy": 0}
READS: Final = {"tessera.read": 0, "tessera.load": 0, "tessera.copy": 1}
LOOPS: Final = frozenset(("scf.for", "scf.while"))


@dataclass
class Uniformity:
    """The result of `analyse`.

    varying: values that may differ between lanes
    divergent: operations that only some lanes may reach
    written: memory classes that the kernel writes
    """

    varying: set[ir.Value] = field(default_factory=set[ir.Value])
    divergent: set[AnyOp] = field(default_factory=set[AnyOp])
    written: set[int] = field(default_factory=set[int])
    _classes: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    _parents: list[int] = field(default_factory=list[int])

    def varies(self, value: ir.Value) -> bool:
        """Whether `value` may differ between the lanes of a group."""
        return value in self.varying

    def is_divergent(self, op: AnyOp) -> bool:
        """Whether only some lanes may reach `op`."""
        return op.operation in self.divergent

    def is_uniform(self, op: AnyOp) -> bool:
        """Whether the whole group reaches `op` together with the same operands."""
        return op.operation not in self.divergent and not any(v in self.varying for v in op.operands)

    def memory_class(self, memory: ir.Value) -> int:
        """The number of the class of a memref value."""
        known = self._classes.get(memory)
        if known is None:
            known = self._classes[memory] = len(self._parents)
            self._parents.append(known)
        while self._parents[known] != known:
            known = self._parents[known]
        return known

    def next_class(self) -> int:
        """A number that no memory of the kernel has, nor any above it."""
        return len(self._parents) + len(self._classes)

    def merge(self, a: ir.Value, b: ir.Value) -> None:
        """Record that two memref values may be the same memory."""
        self._parents[self.memory_class(a)] = self.memory_class(b)


def analyse(function: AnyOp) -> Uniformity:
    """Analyse a `func.func` of Tile IR."""
    result = Uniformity()
    block = function.regions[0].blocks[0]
    for argument in block.arguments:
        if is_memory(argument.type):
            result.memory_class(argument)
    before = -1
    while before != (before := len(result.varying) + len(result.divergent)):
        _block(result, block, divergent=False)
    for op in walk(block):
        if op.name in WRITES:
            result.written.add(result.memory_class(op.operands[WRITES[op.name]]))
    return result


def walk(block: ir.Block) -> Iterator[ir.Operation]:
    """Every operation inside `block`, outer before inner."""
    for op in block.operations:
        yield op.operation
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from walk(inner)


def is_memory(kind: ir.Type) -> bool:
    """Whether a type is that of an array or a shared buffer."""
    return isinstance(kind, ir.MemRefType)


def is_tile(kind: ir.Type) -> bool:
    """Whether a type is that of a tile."""
    return isinstance(kind, ir.RankedTensorType)


def _block(result: Uniformity, block: ir.Block, *, divergent: bool) -> None:
    for view in block.operations:
        op = view.operation
        if divergent:
            result.divergent.add(op)
        visit = _CONTROL.get(op.name, _plain)
        visit(result, op, divergent)


def _plain(result: Uniformity, op: AnyOp, divergent: bool) -> None:
    del divergent
    varies = any(v in result.varying for v in op.operands)
    if op.name == "tessera.id":
        varies = ir.StringAttr(op.attributes["of"]).value in _LANE_IDS
    if varies:
        result.varying.update(v for v in op.results if not is_memory(v.type))
    if op.name == "arith.select" and is_memory(op.results[0].type):
        for source in list(op.operands)[1:]:
            result.merge(op.results[0], source)
        if varies:
            result.varying.add(op.results[0])


def _for(result: Uniformity, op: AnyOp, divergent: bool) -> None:
    block = op.regions[0].blocks[0]
    bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
    lanes = any(v in result.varying for v in bounds)
    index, *carried = block.arguments
    if any(v in result.varying for v in (bounds[0], bounds[2])):
        result.varying.add(index)
    _flow(result, initial, carried)
    _block(result, block, divergent=divergent or lanes)
    _flow(result, _last(block).operands, carried)
    _flow(result, carried, op.results, force=lanes)


def _if(result: Uniformity, op: AnyOp, divergent: bool) -> None:
    lanes = op.operands[0] in result.varying
    for region in op.regions:
        for block in region.blocks:
            _block(result, block, divergent=divergent or lanes)
            _flow(result, _last(block).operands, op.results, force=lanes)


def _while(result: Uniformity, op: AnyOp, divergent: bool) -> None:
    condition, body = (region.blocks[0] for region in op.regions)
    last = _last(condition)
    lanes = last.operands[0] in result.varying
    _flow(result, op.operands, condition.arguments)
    _block(result, condition, divergent=divergent or lanes)
    passed = list(last.operands)[1:]
    _flow(result, passed, body.arguments)
    _block(result, body, divergent=divergent or lanes)
    _flow(result, _last(body).operands, condition.arguments)
    _flow(result, passed, op.results, force=lanes)


def _flow(
    result: Uniformity,
    sources: Sequence[ir.Value],
    targets: Sequence[ir.Value],
    *,
    force: bool = False,
) -> None:
    """Values pass from `sources` to `targets`: what varies varies there too, memories become one class."""
    for source, target in zip(list(sources), list(targets), strict=True):
        if is_memory(target.type):
            result.merge(target, source)
        if force or source in result.varying:
            result.varying.add(target)


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


_CONTROL: Final = {"scf.for": _for, "scf.if": _if, "scf.while": _while}
